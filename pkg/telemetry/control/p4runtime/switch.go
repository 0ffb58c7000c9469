// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Bounds of what a switch answers. A program comes as one message; entries of a table take more memory than bytes on
// the wire, by far where they are empty.
const (
	maxMessage  = 64 << 20 // bytes
	mostRead    = 8 << 20  // bytes of what is read, over all messages
	mostEntries = 1 << 17  // of what is read
)

// Target is a switch, and how to reach it.
type Target struct {
	Address  string // HOST:PORT
	Device   uint64 // its number there
	Election uint64 // the greatest of all controllers is the primary one; 0: 1
	// TLS secures the connection; nil: nothing does.
	TLS *tls.Config
	// Dial makes the connection; nil: from the network namespace of the process.
	Dial func(context.Context, string) (net.Conn, error)
}

// Switch is a connection to a switch, as its primary controller. Close it. It may be used
// concurrently.
type Switch struct {
	conn     *grpc.ClientConn
	client   p4.P4RuntimeClient
	stream   p4.P4Runtime_StreamChannelClient
	stop     context.CancelFunc
	device   uint64
	election *p4.Uint128
	program  *Program

	mu   sync.Mutex
	lost error // why this is the primary controller no more
}

// ErrBackup says that another controller of the switch has a greater election id.
var ErrBackup = errors.New("another controller has a greater election id")

// Dial connects to a switch. It waits until the switch is there, or ctx ends.
func Dial(ctx context.Context, to Target) (*Switch, error) {
	secure := insecure.NewCredentials()
	if to.TLS != nil {
		secure = credentials.NewTLS(to.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.WaitForReady(true)),
		grpc.WithNoProxy(),
	}
	if to.Dial != nil {
		options = append(options, grpc.WithContextDialer(to.Dial))
	}
	conn, err := grpc.NewClient("passthrough:///"+to.Address, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the switch at %s: %w", to.Address, err)
	}
	s := &Switch{conn: conn, client: p4.NewP4RuntimeClient(conn), device: to.Device, election: &p4.Uint128{Low: max(to.Election, 1)}}
	if err := s.arbitrate(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("become the controller of the switch at %s: %w", to.Address, err)
	}
	go s.watch()
	return s, nil
}

// retry is how soon a switch that cannot be reached is tried again.
const retry = 100 * time.Millisecond

// arbitrate makes this the primary controller, as soon as the switch can be reached.
func (s *Switch) arbitrate(ctx context.Context) error {
	for {
		err := s.ask(ctx)
		switch code := status.Code(err); {
		case err == nil:
			return nil
		case code == codes.InvalidArgument: // perhaps a connection of ours that has just ended
			err = fmt.Errorf("is there another controller with election id %d? %w", s.election.GetLow(), err)
		case code != codes.Unavailable:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		case <-time.After(retry):
		}
	}
}

// ask asks the switch to be the primary controller. It is so while the stream is open (P4Runtime 1.3.0, 5).
func (s *Switch) ask(ctx context.Context) error {
	open, stop := context.WithCancel(context.Background())
	s.stop = stop
	watch := context.AfterFunc(ctx, stop) // until the switch has answered
	err := func() (err error) {
		// An error that says why is better than waiting for a switch that is not ready.
		if s.stream, err = s.client.StreamChannel(open, grpc.WaitForReady(false)); err != nil {
			return err
		}
		request := &p4.MasterArbitrationUpdate{DeviceId: s.device, ElectionId: s.election}
		if err := s.stream.Send(&p4.StreamMessageRequest{
			Update: &p4.StreamMessageRequest_Arbitration{Arbitration: request},
		}); err != nil && !errors.Is(err, io.EOF) { // io.EOF: Recv says why
			return err
		}
		answer, err := s.stream.Recv()
		if err != nil {
			return err
		}
		return s.primary(answer)
	}()
	if !watch() && err == nil {
		err = context.Cause(ctx)
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// primary says why a message makes another controller the primary one; nil: it does not.
func (s *Switch) primary(m *p4.StreamMessageResponse) error {
	a := m.GetArbitration()
	if code := codes.Code(a.GetStatus().GetCode()); a != nil && code != codes.OK {
		return fmt.Errorf("device %d: %w (%d; this one has %d)", s.device, ErrBackup, a.GetElectionId().GetLow(), s.election.GetLow())
	}
	return nil
}

// watch reads what the switch says by itself, until the connection ends.
func (s *Switch) watch() {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			err = fmt.Errorf("the connection to the switch has ended: %w", err)
		} else if m.GetArbitration() == nil {
			continue
		}
		lost := err
		if lost == nil {
			lost = s.primary(m)
		}
		s.mu.Lock()
		s.lost = lost
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Lost says why this is the primary controller no more; nil: it is.
func (s *Switch) Lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Close ends the connection. The switch keeps its program and entries.
func (s *Switch) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.conn.Close()
}

// Load gives the switch a program, with empty tables.
func (s *Switch) Load(ctx context.Context, p *Program) error {
	_, err := s.client.SetForwardingPipelineConfig(ctx, &p4.SetForwardingPipelineConfigRequest{
		DeviceId: s.device, ElectionId: s.election,
		Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{P4Info: p.info, P4DeviceConfig: p.binary},
	})
	if err != nil {
		return fmt.Errorf("load the program: %w", err)
	}
	s.program = p
	return nil
}

// Use says which program the switch has, if another controller has loaded it.
func (s *Switch) Use(p *Program) { s.program = p }

// Run does what the lines say (Program.Commands), all that can be done.
func (s *Switch) Run(ctx context.Context, text string) error {
	commands, err := s.program.Commands(text)
	if err != nil || len(commands) == 0 {
		return err
	}
	request := &p4.WriteRequest{DeviceId: s.device, ElectionId: s.election}
	for _, c := range commands {
		request.Updates = append(request.Updates, c.Update)
	}
	_, err = s.client.Write(ctx, request)
	return explain(err, len(commands), func(i int) string { return fmt.Sprintf("line %d", commands[i].Line) })
}

// mostRefused is how many refusals an error names.
const mostRefused = 8

// explain names those of n updates that the switch has refused: it answers with one status for each of them.
func explain(err error, n int, name func(int) string) error {
	if err == nil {
		return nil
	}
	var failed []error
	more := 0
	for i, detail := range status.Convert(err).Details() {
		if e, ok := detail.(*p4.Error); ok && i < n && codes.Code(e.GetCanonicalCode()) != codes.OK {
			if len(failed) == mostRefused {
				more++
				continue
			}
			failed = append(failed, fmt.Errorf("%s: the switch refuses it: %v %s",
				name(i), codes.Code(e.GetCanonicalCode()), e.GetMessage()))
		}
	}
	if len(failed) == 0 {
		return fmt.Errorf("write to the switch: %w", err)
	}
	if more > 0 {
		failed = append(failed, fmt.Errorf("and %d others", more))
	}
	return errors.Join(failed...)
}

// Clear removes all entries of these tables. Their default actions stay.
func (s *Switch) Clear(ctx context.Context, tables ...string) error {
	for _, name := range tables {
		t, err := s.program.table(name)
		if err != nil {
			return err
		}
		all, err := s.read(ctx, entity(&p4.TableEntry{TableId: t.GetPreamble().GetId()}))
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(e *p4.Entity) bool { return e.GetTableEntry().GetIsDefaultAction() })
		if len(all) == 0 {
			continue
		}
		request := &p4.WriteRequest{DeviceId: s.device, ElectionId: s.election}
		for _, e := range all {
			request.Updates = append(request.Updates, &p4.Update{Type: p4.Update_DELETE, Entity: e})
		}
		if _, err := s.client.Write(ctx, request); err != nil {
			return fmt.Errorf("clear table %s: %w", name, err)
		}
	}
	return nil
}

// Counts returns the packets of a counter, by index. Zeros are left out.
func (s *Switch) Counts(ctx context.Context, counter string) (map[int]int, error) {
	c := s.program.counters[counter]
	if c == nil {
		return nil, fmt.Errorf("the program has no counter %q", counter)
	}
	all, err := s.read(ctx, &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{CounterId: c.GetPreamble().GetId()}}})
	if err != nil {
		return nil, err
	}
	counts := make(map[int]int)
	for _, e := range all {
		if n := e.GetCounterEntry().GetData().GetPacketCount(); n != 0 {
			counts[int(e.GetCounterEntry().GetIndex().GetIndex())] = int(n)
		}
	}
	return counts, nil
}

// EntryCounts returns the packets that each entry of a table with counters has met, by priority as
// Commands has it. Zeros are left out.
func (s *Switch) EntryCounts(ctx context.Context, table string) (map[int]int, error) {
	t, err := s.program.table(table)
	if err != nil {
		return nil, err
	}
	all, err := s.read(ctx, &p4.Entity{Entity: &p4.Entity_DirectCounterEntry{DirectCounterEntry: &p4.DirectCounterEntry{
		TableEntry: &p4.TableEntry{TableId: t.GetPreamble().GetId()},
	}}})
	if err != nil {
		return nil, err
	}
	counts := make(map[int]int)
	for _, e := range all {
		d := e.GetDirectCounterEntry()
		if n := d.GetData().GetPacketCount(); n != 0 && !d.GetTableEntry().GetIsDefaultAction() {
			counts[topPriority-int(d.GetTableEntry().GetPriority())] += int(n)
		}
	}
	return counts, nil
}

// read reads what matches. An answer that does not end, or is larger than any table of ours, is given up.
func (s *Switch) read(ctx context.Context, what *p4.Entity) ([]*p4.Entity, error) {
	ctx, stop := context.WithCancel(ctx) // the switch sends on until the call is cancelled
	defer stop()
	stream, err := s.client.Read(ctx, &p4.ReadRequest{DeviceId: s.device, Entities: []*p4.Entity{what}}, grpc.MaxCallRecvMsgSize(mostRead))
	if err != nil {
		return nil, fmt.Errorf("read from the switch: %w", err)
	}
	var all []*p4.Entity
	for bytes := 0; ; {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read from the switch: %w", err)
		}
		// A message takes memory and time that its bytes do not show.
		bytes += 64 + proto.Size(answer)
		if all = append(all, answer.GetEntities()...); bytes > mostRead || len(all) > mostEntries {
			return nil, fmt.Errorf("read from the switch: its answer has more than %d MiB, or %d entries", mostRead>>20, mostEntries)
		}
	}
}
