// SPDX-License-Identifier: Apache-2.0

package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/sink/otlp"
)

func ptr[T any](v T) *T { return &v }

// start is when packets are sent: 2026-01-01.
const start = int64(1767225600_000000000)

// packet is one that waits in a queue of r1, and is dropped there if lost.
func packet(id string, lost bool) *record.Record {
	r := &record.Record{
		ID: id, Source: record.EBPF, Host: "vm", State: record.Delivered, TNs: start, IPVersion: 4, Src: "10.0.1.1", Dst: "10.0.2.2", Proto: "udp",
		Sport: ptr(40000), Dport: ptr(53), Len: 100, Segs: 1, TTL: 64, LatencyNs: ptr(int64(9000)),
		Hops: []record.Hop{
			{Node: "h1", NodeID: 1, Port: "eth0", Role: record.Source, AtNs: ptr(int64(0))},
			{Node: "r1", NodeID: 2, InPort: "eth0", Port: "eth1", Role: record.Transit, AtNs: ptr(int64(3000)), NodeNs: ptr(int64(1000)), LinkNs: ptr(int64(2000)), QueueNs: ptr(int64(4000)), Src: "192.0.2.9"},
			{Node: "h2", NodeID: 3, InPort: "eth0", Role: record.Sink, AtNs: ptr(int64(9000)), LinkNs: ptr(int64(2000))},
		},
	}
	if lost {
		r.State, r.Hops, r.Hops[1].QueueNs, r.LatencyNs = record.Lost, r.Hops[:2], nil, ptr(int64(1)) // that is no latency
		r.Loss = &record.Loss{Node: "r1", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", AtNs: ptr(int64(3500))}
	}
	return r
}

// spansOf are the spans of a packet in words, in order.
func spansOf(r *record.Record) (list []string) {
	m := otlp.Maker{Domain: "lab"}
	names := map[string]string{"": "-"}
	m.Spans(r, func(of otlp.Resource, s *tracepb.Span) {
		names[string(s.SpanId)] = s.Name
		text := fmt.Sprintf("%s: %s below %s, %d to %d", of.Node, s.Name, names[string(s.ParentSpanId)], int64(s.StartTimeUnixNano)-start, int64(s.EndTimeUnixNano)-start)
		if s.Status != nil {
			text += ", " + s.Status.Message
		}
		for _, e := range s.Events {
			text += fmt.Sprintf(", %s at %d", e.Name, int64(e.TimeUnixNano)-start)
		}
		list = append(list, text)
	})
	return list
}

// A hop is a span below the hop before; a wait in a queue one below its hop; a loss an error where it was.
func TestSpans(t *testing.T) {
	for _, c := range []struct {
		lost bool
		want []string
	}{
		{false, []string{
			"h1: udp packet below -, 0 to 9001",
			"h1: send eth0 below udp packet, 0 to 1",
			"r1: forward eth0 > eth1 below send eth0, 2000 to 7000",
			"r1: queue eth1 below forward eth0 > eth1, 3000 to 7000",
			"h2: receive eth0 below forward eth0 > eth1, 9000 to 9001",
		}},
		{true, []string{
			"h1: udp packet below -, 0 to 3500, QDISC_DROP at r1/eth1 (queue tbf)",
			"h1: send eth0 below udp packet, 0 to 1",
			"r1: forward eth0 > eth1 below send eth0, 2000 to 3500, QDISC_DROP at r1/eth1 (queue tbf), packet lost at 3500",
		}},
	} {
		got := spansOf(packet("1-2", c.lost))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A loss among hops without an order is an error where it was, at none else; what a node says of its time is the length of
// its span, also where nothing says when that began.
func TestReported(t *testing.T) {
	for loss, want := range map[string][]string{
		"s1": {
			"s1: udp packet below -, 0 to 5000, ACL at s1",
			"s1: handle below udp packet, 0 to 5000, ACL at s1, packet lost at 5000",
			"s2: handle below udp packet, 0 to 1",
		},
		"s9": {
			"s1: udp packet below -, 0 to 5000, ACL at s9, packet lost at 5000",
			"s1: handle below udp packet, 0 to 5000",
			"s2: handle below udp packet, 0 to 1",
		},
	} {
		r := packet("1-2", false)
		r.Source, r.State, r.Unordered, r.LatencyNs = record.INT, record.Lost, true, nil
		r.Hops = []record.Hop{{Node: "s1", Prev: ptr(-1), NodeNs: ptr(int64(5000))}, {Node: "s2", Prev: ptr(-1)}}
		r.Loss = &record.Loss{Node: loss, At: record.AtNode, Reason: "ACL"}
		if diff := cmp.Diff(want, spansOf(r)); diff != "" {
			t.Errorf("lost at %s: %s", loss, diff)
		}
	}
}

// The spans of a packet are the same whenever they are made, and those of another packet are others.
func TestIDs(t *testing.T) {
	ids := make(map[string]int)
	for _, id := range []string{"1-2", "1-2", "1-3"} {
		m := otlp.Maker{}
		m.Spans(packet(id, false), func(_ otlp.Resource, s *tracepb.Span) {
			if len(s.TraceId) != 16 || len(s.SpanId) != 8 {
				t.Errorf("%x, %x", s.TraceId, s.SpanId)
			}
			ids[fmt.Sprintf("%x %x", s.TraceId, s.SpanId)]++
		})
	}
	twice := 0
	for _, n := range ids {
		if n == 2 {
			twice++
		}
	}
	if len(ids) != 10 || twice != 5 {
		t.Errorf("%d IDs, %d of them twice", len(ids), twice)
	}
}

// Samples are chosen by packet or by flow in both directions, lost packets are kept, a second has so many.
func TestSampler(t *testing.T) {
	oneWay := make(map[int]int) // packets from a port less those to it
	take := func(s otlp.Sampler) (n int, _ otlp.SampleCounts) {
		for i := range 1000 {
			r := packet(fmt.Sprintf("1-%x", i), i%10 == 0)
			r.Sport = ptr(1000 + i/2%100)
			if i%2 == 1 {
				r.Src, r.Dst, r.Sport, r.Dport = r.Dst, r.Src, r.Dport, r.Sport
			}
			r.TNs += int64(i) * 2e6
			if s.Take(r) {
				n++
				oneWay[1000+i/2%100] += 1 - i%2*2
			}
		}
		return n, s.SampleCounts
	}
	if n, c := take(otlp.Sampler{OneIn: 10}); n < 70 || n > 130 || c.NotSampled != uint64(1000-n) {
		t.Errorf("1/10: %d, %+v", n, c)
	}
	// Of a flow there are 5 packets in each direction.
	clear(oneWay)
	if n, c := take(otlp.Sampler{OneIn: 10, Flows: true}); n == 0 || n%10 != 0 || n > 250 || c.NotSampled != uint64(1000-n) {
		t.Errorf("flow:1/10: %d, %+v", n, c)
	}
	for port, n := range oneWay {
		if n != 0 {
			t.Errorf("of port %d one direction has %d packets more", port, n)
		}
	}
	if n, c := take(otlp.Sampler{OneIn: 1 << 40, KeepLosses: true}); n != 100 || c.KeptLosses != 100 {
		t.Errorf("losses: %d, %+v", n, c)
	}
	if n, c := take(otlp.Sampler{Rate: 100}); n != 200 || c.OverRate != 800 {
		t.Errorf("100/s for 2 s: %d, %+v", n, c)
	}
}

// service is OpenTelemetry's own collector service. answer says what becomes of a request.
type service struct {
	collectorpb.UnimplementedTraceServiceServer
	mu      sync.Mutex
	spans   []*tracepb.Span
	headers metadata.MD
	asked   int
	answer  func(asked int) (*collectorpb.ExportTraceServiceResponse, error)
}

func (s *service) Export(ctx context.Context, q *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headers, _ = metadata.FromIncomingContext(ctx)
	s.asked++
	if s.answer != nil {
		if reply, err := s.answer(s.asked); reply != nil || err != nil {
			return reply, err
		}
	}
	for _, r := range q.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			s.spans = append(s.spans, scope.Spans...)
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// serve runs the service by gRPC.
func (s *service) serve(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// over is a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// export sends packets, and returns what became of their spans.
func export(t *testing.T, transport otlp.Transport, n int, patience time.Duration) otlp.Counts {
	t.Helper()
	s := otlp.NewSender(&otlp.Maker{Domain: "lab"}, transport, "test")
	for i := range n {
		s.Add(t.Context(), packet(fmt.Sprintf("1-%x", i), false), true)
	}
	s.Close(over(), patience)
	c := s.Counts()
	if c.Spans != c.Sent+c.Rejected+c.Failed+c.QueueFull+c.AtEnd {
		t.Errorf("spans are missing: %+v", c)
	}
	return c
}

func settings(target string) otlp.Settings {
	return otlp.Settings{Target: target, Gzip: true, Timeout: time.Minute, Agent: "radar/test", Headers: map[string]string{"x-tenant": "a"}}
}

func overGRPC(t *testing.T, target string) otlp.Transport {
	transport, err := otlp.NewGRPC(settings(target))
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// The service has every span. What it says may succeed later is sent again, when it says so; anything else is not.
func TestGRPC(t *testing.T) {
	exhausted := func(retry bool) error {
		s := status.New(codes.ResourceExhausted, "full")
		if retry {
			s, _ = s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
		}
		return s.Err()
	}
	for name, c := range map[string]struct {
		answer func(asked int) (*collectorpb.ExportTraceServiceResponse, error)
		want   otlp.Counts
	}{
		"taken": {nil, otlp.Counts{Sent: 1000, Requests: 2}},
		"later": {func(asked int) (*collectorpb.ExportTraceServiceResponse, error) {
			if asked == 1 {
				return nil, status.Error(codes.Unavailable, "later")
			}
			return nil, nil
		}, otlp.Counts{Sent: 1000, Requests: 2, Retries: 1}},
		"when it says": {func(asked int) (*collectorpb.ExportTraceServiceResponse, error) {
			if asked == 1 {
				return nil, exhausted(true)
			}
			return nil, nil
		}, otlp.Counts{Sent: 1000, Requests: 2, Retries: 1}},
		"full": {func(int) (*collectorpb.ExportTraceServiceResponse, error) { return nil, exhausted(false) },
			otlp.Counts{Failed: 1000, Errors: map[string]uint64{"ResourceExhausted: full": 2}}},
		"refused": {func(int) (*collectorpb.ExportTraceServiceResponse, error) {
			return nil, status.Error(codes.Unauthenticated, "who?")
		},
			otlp.Counts{Failed: 1000, Errors: map[string]uint64{"Unauthenticated: who?": 2}}},
		"in part": {func(int) (*collectorpb.ExportTraceServiceResponse, error) {
			return &collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 7, ErrorMessage: "odd"}}, nil
		}, otlp.Counts{Sent: 986, Rejected: 14, Requests: 2, Errors: map[string]uint64{"rejected: odd": 2}}},
		"with a warning": {func(int) (*collectorpb.ExportTraceServiceResponse, error) {
			return &collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{ErrorMessage: "soon full"}}, nil
		}, otlp.Counts{Sent: 1000, Requests: 2, Errors: map[string]uint64{"warning: soon full": 2}}},
	} {
		s := &service{answer: c.answer}
		got := export(t, overGRPC(t, s.serve(t)), 200, time.Minute)
		c.want.Packets, c.want.Spans = 200, 1000
		if c.want.Errors == nil {
			c.want.Errors = map[string]uint64{}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if c.answer == nil && (len(s.spans) != 1000 || strings.Join(s.headers["x-tenant"], "") != "a" || !strings.HasPrefix(s.headers["user-agent"][0], "radar/test")) {
			t.Errorf("the service has %d spans, %v", len(s.spans), s.headers)
		}
	}
}

// The same by HTTP: Retry-After, the body of an error, and a body that is no answer.
func TestHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, asked int) bool
		want   otlp.Counts
	}{
		"taken": {nil, otlp.Counts{Sent: 500, Requests: 1}},
		"later": {func(w http.ResponseWriter, asked int) bool {
			w.Header().Set("Retry-After", "1")
			if asked == 1 {
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return asked == 1
		}, otlp.Counts{Sent: 500, Requests: 1, Retries: 1}},
		"refused": {func(w http.ResponseWriter, _ int) bool {
			w.Header().Set("Content-Type", "application/x-protobuf")
			b, _ := proto.Marshal(status.New(codes.InvalidArgument, "odd").Proto())
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(b)
			return true
		}, otlp.Counts{Failed: 500, Errors: map[string]uint64{"400 Bad Request: odd": 1}}},
		"elsewhere": {func(w http.ResponseWriter, _ int) bool {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}, otlp.Counts{Failed: 500, Errors: map[string]uint64{"307 Temporary Redirect": 1}}},
	} {
		asked, spans := 0, 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			if c.answer != nil && c.answer(w, asked) {
				return
			}
			zipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			b, _ := io.ReadAll(zipped)
			var q collectorpb.ExportTraceServiceRequest
			if err := proto.Unmarshal(b, &q); err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("X-Tenant") != "a" {
				t.Errorf("%v, %v", err, r.Header)
			}
			for _, of := range q.ResourceSpans {
				spans += len(of.ScopeSpans[0].Spans)
			}
		}))
		got := export(t, otlp.NewHTTP(settings(server.URL)), 100, time.Minute)
		server.Close()
		c.want.Packets, c.want.Spans = 100, 500
		if c.want.Errors == nil {
			c.want.Errors = map[string]uint64{}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || c.want.Sent > 0 && spans != 500 {
			t.Errorf("%s: %d spans, %s", name, spans, diff)
		}
	}
}

// A collector that does not answer holds up nothing: what has no room is counted, and so is what waits at the end.
func TestNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := otlp.NewSender(&otlp.Maker{}, overGRPC(t, l.Addr().String()), "test")
	for i := range 20_000 {
		s.Add(t.Context(), packet(fmt.Sprintf("1-%x", i), false), false)
	}
	s.Close(over(), 10*time.Millisecond)
	c := s.Counts()
	if c.Spans != 100_000 || c.QueueFull == 0 || c.AtEnd == 0 || c.QueueFull+c.AtEnd != c.Spans {
		t.Errorf("%+v", c)
	}
}

// What there is waits for a collector that is away for a while, also at the end; one that stays away fails all that is left,
// and not for two minutes each.
func TestAway(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked++; asked <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	said := 0
	send := func(target string, away time.Duration) otlp.Counts {
		s := otlp.NewSender(&otlp.Maker{}, otlp.NewHTTP(settings(target)), "test")
		s.Away, s.Again = away, func(error) { said++ }
		for i := range 500 {
			s.Add(t.Context(), packet(fmt.Sprintf("1-%x", i), false), true)
		}
		s.Close(t.Context(), 0) // nobody ends it
		return s.Counts()
	}
	if c := send(server.URL, time.Hour); c.Sent != 2500 || c.Retries != 2 || said != 1 {
		t.Errorf("away for a while: %+v, said %d times", c, said)
	}
	if c := send("http://127.0.0.1:1", time.Nanosecond); c.Failed != 2500 || c.Retries != 0 {
		t.Errorf("gone: %+v", c)
	}
}

// Recordings of others cost bounded memory, and their spans are ones that a collector reads.
func TestHostile(t *testing.T) {
	long := strings.Repeat("\xff\u00fc", 5000)
	r := packet("1-2", false)
	r.Host, r.Src, r.Proto, r.TNs, r.Inner = long, long, long, -1<<63, long
	r.Loss = &record.Loss{Node: long, Port: long, Reason: long, AtNs: ptr(int64(-5))}
	r.Hops = nil
	for i := range 100_000 {
		r.Hops = append(r.Hops, record.Hop{Node: long, NodeID: -i, InPort: long, Port: long, AtNs: ptr(int64(i) << 50), NodeNs: ptr(int64(-1)), QueueNs: ptr(int64(1) << 62), Prev: ptr(i*7919%100_003 - 1), INT: map[string]uint64{long: 1 << 63}})
		r.Losses = append(r.Losses, record.BranchLoss{Hop: 5, Loss: *r.Loss})
	}
	var data tracepb.TracesData
	n := 0
	m := otlp.Maker{}
	m.Spans(r, func(of otlp.Resource, s *tracepb.Span) {
		n++
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%d to %d", s.StartTimeUnixNano, s.EndTimeUnixNano)
		}
		data.ResourceSpans = append(data.ResourceSpans, &tracepb.ResourceSpans{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{s}}}})
	})
	b, err := proto.Marshal(&data)
	if err != nil || n > 513 || len(b) > 3<<20 {
		t.Fatalf("%d spans, %d bytes, %v", n, len(b), err)
	}
	text, err := protojson.Marshal(&data) // refuses what is no UTF-8
	var again any
	if err != nil || json.Unmarshal(text, &again) != nil || bytes.Contains(text, []byte("\xff")) {
		t.Error(err)
	}
	m.Spans(&record.Record{}, func(of otlp.Resource, s *tracepb.Span) {
		if of.Node != "radar" || len(s.TraceId) != 16 {
			t.Errorf("%+v: %v", of, s)
		}
	})
}

// Attributes have OpenTelemetry's names where it has some: of a hop those that the packet came with.
func TestAttributes(t *testing.T) {
	m := otlp.Maker{Domain: "lab"}
	all := make(map[string]map[string]string)
	m.Spans(packet("1-2", false), func(_ otlp.Resource, s *tracepb.Span) {
		all[s.Name] = make(map[string]string)
		for _, a := range s.Attributes {
			all[s.Name][a.Key] = words(a.Value)
		}
	})
	for span, want := range map[string]map[string]string{
		"udp packet":          {"source.address": "10.0.1.1", "source.port": "40000", "destination.address": "10.0.2.2", "destination.port": "53", "network.transport": "udp", "network.type": "ipv4", "radar.packet.id": "1-2", "radar.state": "delivered", "radar.path": "h1 > r1 > h2"},
		"forward eth0 > eth1": {"source.address": "10.0.1.1", "radar.nat.source.address": "192.0.2.9", "radar.link_ns": "2000", "radar.node_ns": "1000", "radar.queue_ns": "4000"},
		"receive eth0":        {"source.address": "192.0.2.9", "radar.port.in": "eth0", "radar.role": "sink"},
		"queue eth1":          {"radar.queue_ns": "4000"},
	} {
		for name, value := range want {
			if all[span][name] != value {
				t.Errorf("%s: %s is %q, want %q", span, name, all[span][name], value)
			}
		}
	}
}

func words(v *commonpb.AnyValue) string {
	if _, ok := v.Value.(*commonpb.AnyValue_IntValue); ok {
		return fmt.Sprint(v.GetIntValue())
	}
	return v.GetStringValue()
}
