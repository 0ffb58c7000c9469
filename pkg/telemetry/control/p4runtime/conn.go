// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"context"
	"fmt"
	"strings"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// Pipeline says what becomes of the program that a switch has.
type Pipeline string

// Pipelines. Loading a program empties all tables, those of forwarding among them.
const (
	Auto Pipeline = "auto" // load ours if the switch has none
	Keep Pipeline = "keep" // never load one
	Push Pipeline = "push" // load ours if the switch has none, or another one
)

// Open connects to a switch whose program has a layout, for a driver. program is loaded as pipeline says.
// The switch is closed by Close of what is returned.
func Open(ctx context.Context, to Target, layout Layout, program *Program, pipeline Pipeline) (control.Conn, error) {
	sw, err := Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	c := &conn{sw: sw, layout: layout, tables: make(map[uint32]*Table)}
	if err := c.begin(ctx, program, pipeline); err != nil {
		sw.Close()
		return nil, err
	}
	return c, nil
}

// conn implements control.Conn for a switch.
type conn struct {
	sw     *Switch
	layout Layout
	tables map[uint32]*Table
	last   *control.State
}

// begin finds out which program the switch has.
func (c *conn) begin(ctx context.Context, ours *Program, pipeline Pipeline) error {
	has, err := c.sw.loaded(ctx)
	if err != nil {
		return err
	}
	other := has == nil || ours != nil && !proto.Equal(has.info, ours.info)
	switch {
	case has == nil && pipeline == Keep:
		return fmt.Errorf("the switch has no program, and pipeline: keep says that none is loaded")
	case has == nil && ours == nil:
		return fmt.Errorf("the switch has no program, and there is none to load")
	case has == nil, pipeline == Push && other:
		if err := c.sw.Load(ctx, ours); err != nil {
			return err
		}
		has = ours
	}
	c.sw.Use(has)
	needs := c.layout.Needs()
	tables := c.layout.Tables()
	for _, t := range tables {
		needs = append(needs, t.Name)
	}
	if missing := has.Lacks(needs...); len(missing) > 0 {
		return fmt.Errorf("the switch has another program: it lacks %s", strings.Join(missing, ", "))
	}
	if b, ok := c.layout.(Beginner); ok {
		if err := b.Begin(has); err != nil {
			return err
		}
	}
	for i := range tables {
		c.tables[has.tables[tables[i].Name].GetPreamble().GetId()] = &tables[i]
	}
	return nil
}

// loaded returns the program of the switch; nil: it has none.
func (s *Switch) loaded(ctx context.Context) (*Program, error) {
	answer, err := s.client.GetForwardingPipelineConfig(ctx, &p4.GetForwardingPipelineConfigRequest{
		DeviceId: s.device, ResponseType: p4.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE,
	})
	switch code := status.Code(err); {
	case code == codes.FailedPrecondition || code == codes.NotFound:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask the switch for its program: %w", err)
	case len(answer.GetConfig().GetP4Info().GetTables()) == 0:
		return nil, nil
	}
	return newProgram(answer.GetConfig().GetP4Info(), nil), nil
}

// Abilities implements control.Conn.
func (c *conn) Abilities() control.Abilities { return c.layout.Abilities(c.sw.program) }

// diff is what Apply would do.
func (c *conn) diff(ctx context.Context, want *control.State) ([]batch, error) {
	wanted, err := c.wanted(want)
	if err != nil {
		return nil, err
	}
	held, err := c.held(ctx)
	if err != nil {
		return nil, err
	}
	return changes(held, wanted), nil
}

var signs = map[p4.Update_Type]string{p4.Update_INSERT: "+ ", p4.Update_MODIFY: "~ ", p4.Update_DELETE: "- "}

// Plan implements control.Conn.
func (c *conn) Plan(ctx context.Context, want control.State) (lines []string, err error) {
	list, err := c.diff(ctx, &want)
	for _, b := range list {
		for _, it := range b.items {
			lines = append(lines, signs[b.kind]+c.sw.program.Text(it.entity))
		}
	}
	return lines, err
}

// Apply implements control.Conn.
func (c *conn) Apply(ctx context.Context, want control.State) error {
	if err := c.sw.Lost(); err != nil {
		return err
	}
	list, err := c.diff(ctx, &want)
	if err != nil {
		return err
	}
	for _, b := range list {
		if err := c.write(ctx, b); err != nil {
			return err
		}
	}
	c.last = &want
	return nil
}

func (c *conn) write(ctx context.Context, b batch) error {
	request := &p4.WriteRequest{DeviceId: c.sw.device, ElectionId: c.sw.election}
	for _, it := range b.items {
		e := it.entity
		if b.kind == p4.Update_DELETE && it.table != nil {
			e = proto.Clone(e).(*p4.Entity)
			e.GetTableEntry().Action = nil
		}
		request.Updates = append(request.Updates, &p4.Update{Type: b.kind, Entity: e})
	}
	_, err := c.sw.client.Write(ctx, request)
	return explain(err, len(b.items), func(i int) string { return signs[b.kind] + c.sw.program.Text(b.items[i].entity) })
}

// Clear implements control.Conn.
func (c *conn) Clear(ctx context.Context) error {
	if err := c.Apply(ctx, control.State{}); err != nil {
		return err
	}
	c.last = nil
	return nil
}

// Holds implements control.Conn.
func (c *conn) Holds(ctx context.Context) (bool, error) {
	if err := c.sw.Lost(); err != nil {
		return false, err
	}
	if c.last == nil {
		return false, nil
	}
	list, err := c.diff(ctx, c.last)
	return err == nil && len(list) == 0, err
}

// Counters implements control.Conn.
func (c *conn) Counters(ctx context.Context) (map[string]uint64, error) {
	all := make(map[string]uint64)
	for counter, names := range c.layout.Counters() {
		counts, err := c.sw.Counts(ctx, counter)
		if err != nil {
			return nil, err
		}
		for i, name := range names {
			if name != "" && counts[i] > 0 {
				all[name] += uint64(counts[i])
			}
		}
	}
	return all, nil
}

// Close implements control.Conn.
func (c *conn) Close() error {
	c.sw.Close()
	return nil
}
