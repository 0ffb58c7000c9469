// SPDX-License-Identifier: Apache-2.0

package otlp_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/sink/otlp"
)

// Packets of great size wait as far as there is room for their bytes.
func TestRoom(t *testing.T) {
	long := strings.Repeat("x", 1000)
	r := packet("1-2", false)
	r.Hops = nil
	for range 256 {
		r.Hops = append(r.Hops, record.Hop{Node: long, InPort: long, Port: long, AtNs: ptr(int64(1)), QueueNs: ptr(int64(1)), Src: long, Dst: long})
	}
	size, spans := 0, uint64(0)
	(&otlp.Maker{}).Spans(r, func(_ otlp.Resource, s *tracepb.Span) { size += proto.Size(s); spans++ })
	l, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := otlp.NewSender(&otlp.Maker{}, overGRPC(t, l.Addr().String()), "test")
	for range 64 {
		s.Add(t.Context(), r, false)
	}
	s.Close(over(), 10*time.Millisecond)
	c := s.Counts()
	if waited := c.AtEnd / spans; waited == 0 || waited*uint64(size) > 32<<20 || c.QueueFull+c.AtEnd != 64*spans {
		t.Errorf("%d packets of %d bytes waited: %+v", waited, size, c)
	}
}

// A proxy is not asked: what goes to the collector is known by its address. Go reads the variables once, so that a process
// of its own has them.
func TestNoProxy(t *testing.T) {
	const proxy = "127.0.0.1:2"
	if os.Getenv("HTTPS_PROXY") != "http://"+proxy {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestNoProxy$")
		cmd.Env = append(os.Environ(), "HTTP_PROXY=http://"+proxy, "HTTPS_PROXY=http://"+proxy, "NO_PROXY=", "no_proxy=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	const nobody = "0.0.0.0:1" // of this machine, but loopback addresses have no proxy anyway
	for name, transport := range map[string]otlp.Transport{"gRPC": overGRPC(t, nobody), "HTTP": otlp.NewHTTP(settings("http://" + nobody))} {
		if a := transport.Export(t.Context(), &tracepb.TracesData{}); a.Err == nil || strings.Contains(a.Err.Error(), proxy) || !strings.Contains(a.Err.Error(), nobody) {
			t.Errorf("%s: %v", name, a.Err)
		}
		transport.Close()
	}
}
