// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
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
}
