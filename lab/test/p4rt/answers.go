// SPDX-License-Identifier: Apache-2.0

package p4rt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
)

// Answer is what a switch answers to one question.
type Answer struct {
	Question string
	Code     string
	Message  string   `json:",omitempty"`
	Updates  []string `json:",omitempty"` // of each update: its code
	Why      []string `json:",omitempty"` // the same: the switch's words
	Entities []string `json:",omitempty"` // what was read, as JSON
	// Stricter says that switches of tests may refuse more than the one that was recorded.
	Stricter bool `json:",omitempty"`
}

// asker asks a switch.
type asker struct {
	ctx    context.Context
	client p4.P4RuntimeClient
	device uint64
	id     *p4.Uint128
	info   *p4config.P4Info
	all    []Answer
}

// Ask asks a switch that has no program all that drivers may come upon.
func Ask(ctx context.Context, conn *grpc.ClientConn, device uint64, info, binary []byte) ([]Answer, error) {
	a := &asker{ctx: ctx, client: p4.NewP4RuntimeClient(conn), device: device, id: &p4.Uint128{Low: 7}, info: new(p4config.P4Info)}
	if err := prototext.Unmarshal(info, a.info); err != nil {
		return nil, err
	}
	first, err := a.arbitrate("the first controller", a.id)
	if err != nil {
		return nil, err
	}
	a.program("a switch without a program")
	a.read("read without a program", tableEntry(a.entry("int.egress_ports", "", 0)))
	a.write("write without a program", insert(tableEntry(a.entry("int.egress_ports", "int.sink", 1, 0, 0))))
	_, err = a.client.SetForwardingPipelineConfig(ctx, &p4.SetForwardingPipelineConfigRequest{
		DeviceId: device, ElectionId: a.id, Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{P4Info: a.info, P4DeviceConfig: binary},
	})
	a.note("load a program", err)
	a.program("a switch with a program")
	a.exact()
	a.ternary()
	a.defaults()
	a.clones()
	a.read("read a counter", &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{CounterId: a.counter("int.done")}}})
	a.controllers(first)
	return a.all, nil
}

// exact asks about entries of a table with an exact key.
func (a *asker) exact() {
	sink := func(port byte) *p4.Entity { return tableEntry(a.entry("int.egress_ports", "int.sink", port, 0, 5)) }
	a.write("insert", insert(sink(1)))
	a.write("insert it again", insert(sink(1)))
	a.write("modify what is there", modify(tableEntry(a.entry("int.egress_ports", "int.transit_out", 1, 200, 0, 5))))
	a.write("modify what is not there", modify(sink(2)))
	a.write("delete what is not there", remove(sink(2)))
	a.write("one of three fails", insert(sink(3)), insert(sink(1)), insert(sink(4)))
	a.read("read a table", tableEntry(&p4.TableEntry{TableId: a.table("int.egress_ports").GetPreamble().GetId()}))
	a.write("an action of another table", insert(tableEntry(&p4.TableEntry{
		TableId: a.table("int.egress_ports").GetPreamble().GetId(), Match: sink(5).GetTableEntry().GetMatch(),
		Action: a.action("int.source", 0, 5),
	})))
	short := sink(5)
	short.GetTableEntry().GetAction().GetAction().Params = nil
	a.write("without parameters", insert(short))
	wide := sink(5)
	wide.GetTableEntry().Match[0].GetExact().Value = []byte{4, 0}
	a.write("a key that is too long", insert(wide))
	padded := sink(6)
	padded.GetTableEntry().Match[0].GetExact().Value = []byte{0, 6}
	a.stricter().write("a key that is not the shortest", insert(padded))
	a.stricter().write("delete by another form", remove(sink(6)))
	none := sink(7)
	none.GetTableEntry().Match = nil
	a.write("without a key", insert(none))
	ranked := sink(8)
	ranked.GetTableEntry().Priority = 3
	a.write("a priority where there is none", insert(ranked))
	a.write("a table that is not there", insert(tableEntry(&p4.TableEntry{TableId: 0x2000001, Match: sink(1).GetTableEntry().GetMatch(), Action: sink(1).GetTableEntry().GetAction()})))
	var many []*p4.Update
	for port := byte(1); port <= 17; port++ {
		many = append(many, insert(tableEntry(a.entry("int.collectors", "int.collector_20", port, 1, 2, 3, 4, 5, 6, 7))))
	}
	a.write("one more than the table has room for", many...)
}

// ternary asks about entries with priorities.
func (a *asker) ternary() {
	watch := func(priority int32, value, mask byte) *p4.Entity {
		return tableEntry(&p4.TableEntry{
			TableId: a.table("int.watchlist").GetPreamble().GetId(), Priority: priority, Action: a.action("int.watch_md", 0xfc, 0, 8, 1),
			Match: []*p4.FieldMatch{{FieldId: 4, FieldMatchType: &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: []byte{value}, Mask: []byte{mask}}}}},
		})
	}
	a.write("a ternary entry", insert(watch(10, 6, 0xff)))
	a.write("the same with another priority", insert(watch(20, 6, 0xff)))
	a.write("the same once more", insert(watch(20, 6, 0xff)))
	a.write("without a priority", insert(watch(0, 17, 0xff)))
	a.write("a mask of nothing", insert(watch(30, 0, 0)))
	a.write("bits that the mask has not", insert(watch(30, 6, 4)))
	all := watch(1<<24-1, 0, 0)
	all.GetTableEntry().Match = nil
	a.write("an entry for all", insert(all))
	a.read("read a table with priorities", tableEntry(&p4.TableEntry{TableId: a.table("int.watchlist").GetPreamble().GetId()}))
	a.write("delete by its priority", remove(watch(10, 6, 0xff)))
	a.write("delete by another priority", remove(watch(10, 6, 0xff)))
}

// defaults asks about default actions.
func (a *asker) defaults() {
	settings := &p4.TableEntry{TableId: a.table("int.settings").GetPreamble().GetId(), IsDefaultAction: true}
	a.read("a default action as the program has it", tableEntry(settings))
	set := &p4.TableEntry{TableId: settings.TableId, IsDefaultAction: true, Action: a.action("int.node", 1, 0, 0x17, 0x3f, 0, 99, 50, 1, 100)}
	a.write("set a default action", modify(tableEntry(set)))
	a.read("a default action that was set", tableEntry(settings))
	a.write("insert a default action", insert(tableEntry(set)))
	a.write("reset a default action", modify(tableEntry(settings)))
	a.read("a default action that was reset", tableEntry(settings))
	constant := &p4.TableEntry{TableId: a.table("int.egress_ports").GetPreamble().GetId(), IsDefaultAction: true, Action: a.action("int.sink", 0, 5)}
	a.write("set a constant default action", modify(tableEntry(constant)))
}

// clones asks about clone sessions.
func (a *asker) clones() {
	clone := func(session, port uint32) *p4.Entity {
		//lint:ignore SA1019 switches of before P4Runtime 1.4 know no other form
		r := &p4.Replica{PortKind: &p4.Replica_EgressPort{EgressPort: port}, Instance: 1}
		return &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{SessionId: session, Replicas: []*p4.Replica{r}}},
		}}}
	}
	a.read("read a clone session that is not there", clone(500, 0))
	a.write("modify a clone session that is not there", modify(clone(500, 4)))
	a.write("a clone session", insert(clone(500, 4)))
	a.write("a clone session again", insert(clone(500, 4)))
	a.write("modify a clone session", modify(clone(500, 5)))
	a.read("read a clone session", clone(500, 0))
	a.write("a clone session whose number is too great", insert(clone(1<<15, 4)))
	a.write("delete a clone session", remove(clone(500, 5)))
	a.write("delete it again", remove(clone(500, 5)))
}

// controllers asks what becomes of one that is primary no more.
func (a *asker) controllers(first p4.P4Runtime_StreamChannelClient) {
	entry := insert(tableEntry(a.entry("int.egress_ports", "int.sink", 9, 0, 5)))
	_, _ = a.arbitrate("another controller with a smaller id", &p4.Uint128{Low: 3})
	_, _ = a.arbitrate("another controller with the same id", &p4.Uint128{Low: 7})
	_, _ = a.arbitrate("another controller with a greater id", &p4.Uint128{Low: 9})
	message, err := first.Recv()
	a.arbitration("what the first is told", message, err)
	a.write("write as another", entry)
	a.id = &p4.Uint128{Low: 9}
	a.write("write as primary", entry)
}

func tableEntry(e *p4.TableEntry) *p4.Entity {
	return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: e}}
}
func insert(e *p4.Entity) *p4.Update { return &p4.Update{Type: p4.Update_INSERT, Entity: e} }
func modify(e *p4.Entity) *p4.Update { return &p4.Update{Type: p4.Update_MODIFY, Entity: e} }
func remove(e *p4.Entity) *p4.Update { return &p4.Update{Type: p4.Update_DELETE, Entity: e} }

func (a *asker) table(name string) *p4config.Table {
	i := slices.IndexFunc(a.info.GetTables(), func(t *p4config.Table) bool { return t.GetPreamble().GetName() == name })
	return a.info.GetTables()[i]
}

func (a *asker) counter(name string) uint32 {
	i := slices.IndexFunc(a.info.GetCounters(), func(c *p4config.Counter) bool { return c.GetPreamble().GetName() == name })
	return a.info.GetCounters()[i].GetPreamble().GetId()
}

func (a *asker) action(name string, params ...byte) *p4.TableAction {
	i := slices.IndexFunc(a.info.GetActions(), func(c *p4config.Action) bool { return c.GetPreamble().GetName() == name })
	action := &p4.Action{ActionId: a.info.GetActions()[i].GetPreamble().GetId()}
	for k, v := range params {
		action.Params = append(action.Params, &p4.Action_Param{ParamId: uint32(k + 1), Value: []byte{v}})
	}
	return &p4.TableAction{Type: &p4.TableAction_Action{Action: action}}
}

// entry is one of a table with one exact key of small numbers; action "": what to read of the table.
func (a *asker) entry(table, action string, key byte, params ...byte) *p4.TableEntry {
	e := &p4.TableEntry{TableId: a.table(table).GetPreamble().GetId()}
	if action != "" {
		e.Match = []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: []byte{key}}}}}
		e.Action = a.action(action, params...)
	}
	return e
}

// stricter says that the next answer may be another one.
func (a *asker) stricter() *asker {
	a.all = append(a.all, Answer{Stricter: true})
	return a
}

// add adds an answer.
func (a *asker) add(one Answer) {
	if n := len(a.all); n > 0 && a.all[n-1].Question == "" {
		one.Stricter = true
		a.all = a.all[:n-1]
	}
	a.all = append(a.all, one)
}

func (a *asker) note(question string, err error) {
	one := Answer{Question: question, Code: status.Code(err).String(), Message: status.Convert(err).Message()}
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*p4.Error); ok {
			one.Updates = append(one.Updates, codes.Code(e.GetCanonicalCode()).String())
			one.Why = append(one.Why, e.GetMessage())
		}
	}
	a.add(one)
}

func (a *asker) write(question string, updates ...*p4.Update) {
	_, err := a.client.Write(a.ctx, &p4.WriteRequest{DeviceId: a.device, ElectionId: a.id, Updates: updates})
	a.note(question, err)
}

func (a *asker) read(question string, what *p4.Entity) {
	one := Answer{Question: question}
	stream, err := a.client.Read(a.ctx, &p4.ReadRequest{DeviceId: a.device, Entities: []*p4.Entity{what}})
	for err == nil {
		var answer *p4.ReadResponse
		if answer, err = stream.Recv(); err == nil {
			for _, e := range answer.GetEntities() {
				b, _ := protojson.Marshal(e)
				one.Entities = append(one.Entities, strings.ReplaceAll(string(b), " ", "")) // protojson adds some at random
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(one.Entities)
	one.Code, one.Message = status.Code(err).String(), status.Convert(err).Message()
	a.add(one)
}

// program asks which program the switch has.
func (a *asker) program(question string) {
	answer, err := a.client.GetForwardingPipelineConfig(a.ctx, &p4.GetForwardingPipelineConfigRequest{
		DeviceId: a.device, ResponseType: p4.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE,
	})
	a.add(Answer{
		Question: question, Code: status.Code(err).String(), Message: status.Convert(err).Message(),
		Entities: []string{fmt.Sprintf("%d tables", len(answer.GetConfig().GetP4Info().GetTables()))},
	})
}

// arbitrate opens a stream, which stays open.
func (a *asker) arbitrate(question string, id *p4.Uint128) (p4.P4Runtime_StreamChannelClient, error) {
	stream, err := a.client.StreamChannel(a.ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
		Arbitration: &p4.MasterArbitrationUpdate{DeviceId: a.device, ElectionId: id},
	}})
	answer, err := stream.Recv()
	a.arbitration(question, answer, err)
	return stream, nil
}

func (a *asker) arbitration(question string, answer *p4.StreamMessageResponse, err error) {
	one := Answer{Question: question, Code: status.Code(err).String(), Message: status.Convert(err).Message()}
	if m := answer.GetArbitration(); m != nil {
		one.Entities = []string{fmt.Sprintf("primary %d: %v", m.GetElectionId().GetLow(), codes.Code(m.GetStatus().GetCode()))}
	}
	a.add(one)
}
