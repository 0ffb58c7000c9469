// SPDX-License-Identifier: Apache-2.0

// Package p4rt is a P4Runtime server for tests. It forwards nothing: it holds entries, and refuses what the
// specification says that a switch refuses (P4Runtime 1.3.0), and answers as BMv2 does: testdata/answers.json, which make
// p4-test RECORD=1 writes. It knows programs from their P4Info alone, and shares no code with radar's controller.
package p4rt

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/protoadapt"
)

// Server is a switch. Its fields may be set before Start.
type Server struct {
	p4.UnimplementedP4RuntimeServer
	Info *p4config.P4Info // of the program that it has; nil: none yet
	// Config is the program for the switch.
	Config []byte
	TLS    *tls.Config
	// Padded makes it answer with values of full width, as some switches do.
	Padded bool
	// OnWrite is called after each update that was made, with all that is held then; an error of it ends the
	// request there.
	OnWrite func(u *p4.Update, held map[string]*p4.Entity) error

	listener net.Listener
	server   *grpc.Server

	mu      sync.Mutex
	streams map[uint64]p4.P4Runtime_StreamChannelServer // by election id
	held    map[string]*p4.Entity
	refused []string
	loaded  int
}

// ReadInfo reads a P4Info.
func ReadInfo(t testing.TB, text []byte) *p4config.P4Info {
	t.Helper()
	info := new(p4config.P4Info)
	if err := prototext.Unmarshal(text, info); err != nil {
		t.Fatal(err)
	}
	return info
}

// Start serves on a port of the loopback. It is stopped when the test ends.
func (s *Server) Start(t testing.TB) *Server {
	t.Helper()
	var err error
	if s.listener, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.serve()
	t.Cleanup(func() { s.server.Stop() })
	return s
}

func (s *Server) serve() {
	s.streams, s.held = make(map[uint64]p4.P4Runtime_StreamChannelServer), make(map[string]*p4.Entity)
	var options []grpc.ServerOption
	if s.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.TLS)))
	}
	s.server = grpc.NewServer(options...)
	p4.RegisterP4RuntimeServer(s.server, s)
	go func(server *grpc.Server, l net.Listener) { _ = server.Serve(l) }(s.server, s.listener)
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Restart ends it and begins anew at the same address: all entries are gone, and the program with them if it
// was loaded by a controller.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	address := s.Address()
	s.server.Stop()
	l, err := net.Listen("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener = l; s.loaded > 0 {
		s.Info, s.loaded = nil, 0
	}
	s.serve()
}

// Stop ends it.
func (s *Server) Stop() { s.server.Stop() }

// Held are the entries that it has, always in the same order.
func (s *Server) Held() (list []*p4.Entity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(s.held)) {
		list = append(list, s.held[k])
	}
	return list
}

// Hold gives it entries without asking.
func (s *Server) Hold(t testing.TB, all ...*p4.Entity) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range all {
		s.held[key(e)] = e
	}
}

// Drop takes an entry from it without asking.
func (s *Server) Drop(e *p4.Entity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, key(e))
}

// Refused is why updates were refused.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// Loaded is how often a program was loaded.
func (s *Server) Loaded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded
}

// StreamChannel implements arbitration (section 5).
func (s *Server) StreamChannel(stream p4.P4Runtime_StreamChannelServer) error {
	var own uint64
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.streams[own] == stream {
			delete(s.streams, own)
		}
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		a := m.GetArbitration()
		if a == nil {
			continue
		}
		s.mu.Lock()
		own = a.GetElectionId().GetLow()
		if s.streams[own] != nil && s.streams[own] != stream {
			s.mu.Unlock()
			own = 0
			return status.Error(codes.InvalidArgument, "election id already used")
		}
		s.streams[own] = stream
		greatest := s.primary()
		for id, to := range s.streams {
			if id != own && id > own {
				continue // the primary stays, and backups have been told
			}
			code := codes.OK
			if id != greatest {
				code = codes.AlreadyExists
			}
			_ = to.Send(&p4.StreamMessageResponse{Update: &p4.StreamMessageResponse_Arbitration{Arbitration: &p4.MasterArbitrationUpdate{
				DeviceId: a.GetDeviceId(), ElectionId: &p4.Uint128{Low: greatest}, Status: status.New(code, "").Proto(),
			}}})
		}
		s.mu.Unlock()
	}
}

func (s *Server) primary() (greatest uint64) {
	for id := range s.streams {
		greatest = max(greatest, id)
	}
	return greatest
}

// GetForwardingPipelineConfig implements section 7.
func (s *Server) GetForwardingPipelineConfig(_ context.Context, r *p4.GetForwardingPipelineConfigRequest) (*p4.GetForwardingPipelineConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Info == nil {
		return nil, status.Error(codes.FailedPrecondition, "No forwarding pipeline config set for this device")
	}
	config := &p4.ForwardingPipelineConfig{P4Info: s.Info}
	if r.GetResponseType() == p4.GetForwardingPipelineConfigRequest_ALL {
		config.P4DeviceConfig = s.Config
	}
	return &p4.GetForwardingPipelineConfigResponse{Config: config}, nil
}

// SetForwardingPipelineConfig implements section 7.
func (s *Server) SetForwardingPipelineConfig(_ context.Context, r *p4.SetForwardingPipelineConfigRequest) (*p4.SetForwardingPipelineConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.GetElectionId().GetLow() != s.primary() {
		return nil, status.Error(codes.PermissionDenied, "Not primary")
	}
	s.Info, s.Config = r.GetConfig().GetP4Info(), r.GetConfig().GetP4DeviceConfig()
	clear(s.held)
	s.loaded++
	return &p4.SetForwardingPipelineConfigResponse{}, nil
}

// Write implements section 12: updates go on after one that is refused, and the answer has a status for each.
func (s *Server) Write(_ context.Context, r *p4.WriteRequest) (*p4.WriteResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.GetElectionId().GetLow() != s.primary() {
		return nil, status.Error(codes.PermissionDenied, "Not primary")
	}
	if s.Info == nil {
		return nil, status.Error(codes.FailedPrecondition, "No forwarding pipeline config set for this device")
	}
	failed := false
	var details []protoadapt.MessageV1
	for _, u := range r.GetUpdates() {
		e := new(p4.Error)
		if err := s.update(u); err != nil {
			failed = true
			e.CanonicalCode, e.Message = int32(status.Code(err)), status.Convert(err).Message()
			s.refused = append(s.refused, e.Message)
		} else if s.OnWrite != nil {
			if err := s.OnWrite(u, s.held); err != nil {
				return nil, err
			}
		}
		details = append(details, protoadapt.MessageV1Of(e))
	}
	if !failed {
		return &p4.WriteResponse{}, nil
	}
	st, err := status.New(codes.Unknown, "Write failure.").WithDetails(details...)
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

// Read implements section 11, of what radar asks for.
func (s *Server) Read(r *p4.ReadRequest, stream p4.P4Runtime_ReadServer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Info == nil {
		return status.Error(codes.FailedPrecondition, "No forwarding pipeline config set for this device")
	}
	answer := new(p4.ReadResponse)
	for _, want := range r.GetEntities() {
		if c := want.GetCounterEntry(); c != nil {
			answer.Entities = append(answer.Entities, s.counters(c.GetCounterId())...)
			continue
		}
		if c := want.GetPacketReplicationEngineEntry().GetCloneSessionEntry(); c.GetSessionId() != 0 && s.held[key(want)] == nil {
			return status.Error(codes.NotFound, "Clone session id does not exist")
		}
		for _, e := range s.held {
			if matches(want, e) {
				answer.Entities = append(answer.Entities, s.padded(e))
			}
		}
		if t := want.GetTableEntry(); t != nil && t.GetIsDefaultAction() && s.held[key(want)] == nil {
			answer.Entities = append(answer.Entities, s.initial(t.GetTableId()))
		}
	}
	return stream.Send(answer)
}

// counters are those of one counter, of which nothing has been counted.
func (s *Server) counters(id uint32) (all []*p4.Entity) {
	for _, c := range s.Info.GetCounters() {
		for i := int64(0); c.GetPreamble().GetId() == id && i < c.GetSize(); i++ {
			all = append(all, &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{
				CounterId: id, Index: &p4.Index{Index: i}, Data: new(p4.CounterData),
			}}})
		}
	}
	return all
}

// initial is the default action that a table has from the program.
func (s *Server) initial(table uint32) *p4.Entity {
	t := s.table(table)
	id := t.GetInitialDefaultAction().GetActionId()
	if id == 0 {
		id = t.GetConstDefaultActionId()
	}
	return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{
		TableId: table, IsDefaultAction: true, Action: &p4.TableAction{Type: &p4.TableAction_Action{Action: &p4.Action{ActionId: id}}},
	}}}
}
