// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestNobodyThere: Dial waits for a switch, and ends with what its caller gave as the cause.
func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cause := errors.New("long enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer cancel()
	if _, err := Dial(ctx, Target{Address: address, Device: 1}); !errors.Is(err, cause) || !strings.Contains(err.Error(), address) {
		t.Errorf("Dial: %v, want %q and the address", err, cause)
	}
}

// TestRefusedLines: of several lines those are named that the switch has refused.
func TestRefusedLines(t *testing.T) {
	commands := []Command{{Line: 3}, {Line: 7}, {Line: 9}}
	answer := func(codes ...codes.Code) error {
		var details []protoadapt.MessageV1
		for _, c := range codes {
			details = append(details, protoadapt.MessageV1Of(&p4.Error{CanonicalCode: int32(c), Message: "why " + c.String()}))
		}
		s, err := status.New(2, "some failed").WithDetails(details...)
		if err != nil {
			t.Fatal(err)
		}
		return s.Err()
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{answer(codes.OK, codes.AlreadyExists, codes.OK), "line 7: the switch refuses it: AlreadyExists why AlreadyExists"},
		{answer(codes.NotFound, codes.OK, codes.Internal), "line 3: the switch refuses it: NotFound why NotFound\nline 9: the switch refuses it: Internal why Internal"},
		{status.Error(codes.Unavailable, "gone"), "write to the switch: rpc error: code = Unavailable desc = gone"},
	} {
		got := ""
		if err := explain(tc.err, len(commands), func(i int) string { return fmt.Sprintf("line %d", commands[i].Line) }); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%v: %q, want %q", tc.err, got, tc.want)
		}
	}
	many := explain(answer(slices.Repeat([]codes.Code{codes.Internal}, 500)...), 500, func(i int) string { return fmt.Sprint(i) })
	if lines := strings.Split(many.Error(), "\n"); len(lines) != mostRefused+1 || lines[mostRefused] != "and 492 others" {
		t.Errorf("500 refusals are in %d lines: %s", len(lines), lines[len(lines)-1])
	}
}

// flood is a switch that answers a question with a message again and again, until whoever asks goes. With
// once it answers once.
type flood struct {
	p4.UnimplementedP4RuntimeServer
	message *p4.ReadResponse
	once    bool
	gone    chan struct{} // closed when it is asked to stop
}

func (f *flood) StreamChannel(stream p4.P4Runtime_StreamChannelServer) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	if err := stream.Send(&p4.StreamMessageResponse{Update: &p4.StreamMessageResponse_Arbitration{Arbitration: m.GetArbitration()}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (f *flood) Read(_ *p4.ReadRequest, stream p4.P4Runtime_ReadServer) error {
	defer close(f.gone)
	for {
		if err := stream.Send(f.message); err != nil || f.once {
			return err
		}
	}
}

// TestReadBounded: a switch that answers without an end, or with more than there is room for, gets an error and is let go.
func TestReadBounded(t *testing.T) {
	entry := func(bytes int) *p4.Entity {
		return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: 1, Metadata: make([]byte, bytes)}}}
	}
	for name, tc := range map[string]struct {
		flood flood
		want  string
	}{
		"entries":         {flood{message: &p4.ReadResponse{Entities: []*p4.Entity{entry(1000)}}}, "more than 8 MiB"},
		"small entries":   {flood{message: &p4.ReadResponse{Entities: slices.Repeat([]*p4.Entity{{}}, 1000)}}, "more than 8 MiB"},
		"empty messages":  {flood{message: &p4.ReadResponse{}}, "more than 8 MiB"},
		"a large message": {flood{message: &p4.ReadResponse{Entities: []*p4.Entity{entry(mostRead)}}, once: true}, "larger than max"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server, f := grpc.NewServer(), &tc.flood
			f.gone = make(chan struct{})
			p4.RegisterP4RuntimeServer(server, f)
			go func() { _ = server.Serve(l) }()
			defer server.Stop()
			ctx, cancel := context.WithTimeout(t.Context(), nstest.Patience)
			defer cancel()
			s, err := Dial(ctx, Target{Address: l.Addr().String(), Device: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if all, err := s.read(ctx, entry(0)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%d entries, %v, want %q", len(all), err, tc.want)
			}
			select {
			case <-f.gone:
			case <-ctx.Done():
				t.Error("the switch goes on")
			}
		})
	}
}
