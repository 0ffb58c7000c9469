// SPDX-License-Identifier: Apache-2.0

package export

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// traces is OpenTelemetry's collector service. It keeps what comes.
type traces struct {
	collectorpb.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []serviceSpan
}

type serviceSpan struct {
	service string
	*tracepb.Span
}

func (s *traces) Export(_ context.Context, q *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range q.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			for _, span := range scope.Spans {
				s.spans = append(s.spans, serviceSpan{r.Resource.Attributes[0].Value.GetStringValue(), span})
			}
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// serveTraces runs the service.
func serveTraces(t *testing.T) (*traces, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, server := &traces{}, grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	nstest.Cleanup(t, server.Stop)
	return s, l.Addr().String()
}

// ways are the traces that came: each packet's services in the order of their spans, its start, and its error.
func (s *traces) ways() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.spans, func(x, y serviceSpan) int { return cmp.Compare(x.StartTimeUnixNano, y.StartTimeUnixNano) })
	type way struct {
		path   []string
		start  uint64
		failed string
	}
	all := make(map[string]*way)
	for _, span := range s.spans {
		w := all[string(span.TraceId)]
		if w == nil {
			w = &way{}
			all[string(span.TraceId)] = w
		}
		switch {
		case len(span.ParentSpanId) == 0:
			w.start = span.StartTimeUnixNano
			if span.Status != nil {
				w.failed = span.Status.Message
			}
		case !strings.HasPrefix(span.Name, "queue "):
			w.path = append(w.path, span.service)
		}
	}
	for _, w := range all {
		list = append(list, fmt.Sprintf("%d %v %s", w.start, w.path, w.failed))
	}
	slices.Sort(list)
	return list
}

// waysOf are the same of records.
func waysOf(records []record.Record) (list []string) {
	for _, r := range records {
		var path []string
		for _, h := range r.Hops {
			path = append(path, h.Node)
		}
		failed := ""
		if l := r.Loss; l != nil {
			failed = l.Reason + " at " + l.Node
			if l.Port != "" {
				failed += "/" + l.Port
			}
			if l.At == record.AtQueue {
				failed += " (queue " + l.Qdisc + ")"
			}
		}
		list = append(list, fmt.Sprintf("%d %v %s", r.TNs, path, failed))
	}
	slices.Sort(list)
	return list
}

// OpenTelemetry's collector service gets each packet as a trace with its nodes, time and loss: of the ring, of a recording,
// and live. A packet that is sent twice is one trace.
func TestOTLP(t *testing.T) {
	w := newExportWorld(t, "bottleneck", nil)
	s, address := serveTraces(t)
	args := []string{"export", "otlp", "--endpoint", "http://" + address}
	live := exec.Command(w.self, args...)
	clitest.Await(t, live, "sending traces to")
	w.traffic()
	own := w.Packets("--last", "0")
	nstest.WaitFor(t, "all traces to come", func() bool { return len(s.ways()) >= len(own) })
	said := saidBy(t, live)
	clitest.Interrupt(w, live)
	wants(t, said(), fmt.Sprintf("radar: %d traces, ", len(own)))
	want := waysOf(own)
	if diff := gocmp.Diff(want, s.ways()); diff != "" {
		t.Errorf("live: %s", diff)
	}
	once := len(s.spans)
	dir := filepath.Join(t.TempDir(), "run")
	recorder := exec.Command(w.self, "record", "-w", dir, "--history")
	clitest.Await(t, recorder, "keeping packets")
	clitest.Interrupt(w, recorder)
	for _, from := range [][]string{{"--last", "0"}, {"-r", dir}} {
		again, address := serveTraces(t)
		stdout := w.Radar(kit.ExitOK, append([]string{"export", "otlp", "-o", "json", "--endpoint", "http://" + address}, from...)...)
		if diff := gocmp.Diff(want, again.ways()); diff != "" || len(again.spans) != once {
			t.Errorf("%v: %d spans, live %d: %s\n%s", from, len(again.spans), once, diff, stdout)
		}
		for _, span := range again.spans {
			if !slices.ContainsFunc(s.spans, func(o serviceSpan) bool {
				return string(o.TraceId) == string(span.TraceId) && string(o.SpanId) == string(span.SpanId)
			}) {
				t.Fatalf("%v: span %x is another one than live", from, span.SpanId)
			}
		}
	}
	lost, lostAddress := serveTraces(t)
	w.Radar(kit.ExitOK, "export", "otlp", "--last", "0", "--sample", "1/1000000000", "--endpoint", lostAddress, "--insecure")
	if got := len(lost.ways()); got != len(w.Packets("--last", "0", "--state", "lost")) || got == 0 {
		t.Errorf("of a sample that has none %d packets, want those that were lost", got)
	}
}

// A real Jaeger draws the lab's topology, and has each packet as a trace without a warning.
func TestJaeger(t *testing.T) {
	need.Nightly(t)
	w := newExportWorld(t, "bottleneck", nil)
	w.traffic()
	query, byGRPC, byHTTP := servers.Free(t), servers.Free(t), servers.Free(t)
	args := []string{"--query.http-server.host-port", query, "--collector.otlp.grpc.host-port", byGRPC, "--collector.otlp.http.host-port", byHTTP}
	for _, other := range []string{"query.grpc-server", "admin.http", "collector.grpc-server", "collector.http-server"} {
		args = append(args, "--"+other+".host-port", servers.Free(t))
	}
	servers.Serve(t, "http://"+query+"/api/services", "jaeger-all-in-one", args...)
	own := w.Packets("--last", "0")
	w.Radar(kit.ExitOK, "export", "otlp", "--last", "0", "--endpoint", "http://"+byGRPC)
	w.Radar(kit.ExitOK, "export", "otlp", "--last", "0", "--protocol", "http", "--endpoint", "http://"+byHTTP)
	w.Radar(kit.ExitOK, "export", "otlp", "--last", "0", "--sample", "1/2", "--endpoint", "http://"+byGRPC) // it has these
	all := fmt.Sprintf("http://%s/api/traces?service=h1&limit=1000", query)
	var found struct{ Data []jaegerTrace }
	nstest.WaitFor(t, "Jaeger to have all packets", func() bool {
		_, text := servers.Get(t, all)
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err)
		}
		return len(found.Data) == len(own)
	})
	for _, trace := range found.Data {
		for _, span := range trace.Spans {
			if len(span.Warnings) > 0 {
				t.Fatalf("Jaeger warns of %s: %v", span.OperationName, span.Warnings)
			}
		}
	}
	_, text := servers.Get(t, all+"&tags="+url.QueryEscape(`{"error":"true"}`))
	if err := json.Unmarshal([]byte(text), &found); err != nil || len(found.Data) != len(w.Packets("--last", "0", "--state", "lost")) {
		t.Errorf("Jaeger has %d lost packets, %v", len(found.Data), err)
	}
	_, text = servers.Get(t, fmt.Sprintf("http://%s/api/dependencies?endTs=%d&lookback=3600000", query, time.Now().Add(time.Minute).UnixMilli()))
	var links struct {
		Data []struct{ Parent, Child string }
	}
	if err := json.Unmarshal([]byte(text), &links); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range links.Data {
		got = append(got, l.Parent+" > "+l.Child)
	}
	slices.Sort(got)
	if diff := gocmp.Diff([]string{"h1 > r1", "h2 > r3", "r1 > h1", "r1 > r2", "r2 > r1", "r2 > r3", "r3 > h2", "r3 > r2"}, got); diff != "" {
		t.Errorf("Jaeger's topology: %s", diff)
	}
}

type jaegerTrace struct {
	Spans []struct {
		OperationName string
		Warnings      []string
	}
}

// Each error says what is wrong, and where nobody listens what to do.
func TestOTLPRefuses(t *testing.T) {
	t.Setenv("RADAR_DOMAIN", "nobody-here")
	for _, c := range []struct {
		env, args string
		code      int
		want      string
	}{
		{"", "", kit.ExitFailure, "is not attached"},
		{"", "--endpoint ftp://x", kit.ExitUsage, "use http://HOST:PORT"},
		{"", "--endpoint http://x:0", kit.ExitUsage, "1 to 65535"},
		{"", "--endpoint https://x --insecure", kit.ExitUsage, "use http, or leave it out"},
		{"", "--protocol thrift", kit.ExitUsage, "use grpc, http"},
		{"", "--sample 10", kit.ExitUsage, "use 1/N or flow:1/N"},
		{"", "--sample 1/0", kit.ExitUsage, "use 1/N or flow:1/N"},
		{"", "--rate 10", kit.ExitUsage, "use N/s"},
		{"", "--header x", kit.ExitUsage, "use NAME=VALUE"},
		{"", "--header a^b=c --header x(=y", kit.ExitUsage, "is no header"},
		{"", "--endpoint x:1 --tls-cert a", kit.ExitUsage, "give both"},
		{"", "--endpoint x:1 --tls-ca /nowhere", kit.ExitFailure, "/nowhere"},
		{"", "--endpoint http://x:1 --tls-ca /nowhere", kit.ExitUsage, "is without TLS: use https"},
		{"", "--insecure --endpoint x:1 --tls-cert a --tls-key b", kit.ExitUsage, "is without TLS: use https"},
		{"CERTIFICATE=/nowhere", "", kit.ExitFailure, "is not attached"},
		{"", "--state in_flight", kit.ExitUsage, "when they have ended"},
		{"PROTOCOL=http/json", "", kit.ExitUsage, "use grpc or http/protobuf"},
		{"COMPRESSION=zstd", "", kit.ExitUsage, "use gzip or none"},
		{"TIMEOUT=1s", "", kit.ExitUsage, "use milliseconds"},
		{"HEADERS=a", "", kit.ExitUsage, "use NAME=VALUE, with commas between"},
	} {
		t.Run(c.env+c.args, func(t *testing.T) {
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			}
			if _, stderr, code := clitest.Radar(t, append([]string{"export", "otlp"}, strings.Fields(c.args)...)...); code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("code %d, %s", code, stderr)
			}
		})
	}
	if _, err := findListener(t.Context(), "127.0.0.1:1", "http://127.0.0.1:1", "do that"); err == nil || err.Error() != "no collector at http://127.0.0.1:1: connect: connection refused: do that" {
		t.Error(err)
	}
}

// Where traces go follows from flags, then from OpenTelemetry's variables, then from what it says of defaults.
func TestOTLPSettings(t *testing.T) {
	for _, c := range []struct {
		env, args []string
		want      string
	}{
		{nil, nil, "grpc localhost:4317 false"},
		{nil, []string{"--protocol", "http"}, "http http://localhost:4318/v1/traces false"},
		{nil, []string{"--endpoint", "c:1"}, "grpc c:1 true"},
		{nil, []string{"--endpoint", "c:1", "--insecure"}, "grpc c:1 false"},
		{nil, []string{"--endpoint", "https://c"}, "grpc c:4317 true"},
		{nil, []string{"--endpoint", "https://c", "--protocol", "http"}, "http https://c:443/v1/traces true"},
		{nil, []string{"--endpoint", "http://[::1]:1/v1/traces", "--protocol", "http"}, "http http://[::1]:1/v1/traces false"},
		{[]string{"ENDPOINT=http://e:1"}, nil, "grpc e:1 false"},
		{[]string{"ENDPOINT=http://e:1/x", "PROTOCOL=http/protobuf"}, nil, "http http://e:1/x/v1/traces false"},
		{[]string{"TRACES_ENDPOINT=http://e:1/x", "ENDPOINT=http://f:1", "PROTOCOL=http/protobuf"}, nil, "http http://e:1/x false"},
		{[]string{"ENDPOINT=e:1", "INSECURE=true"}, nil, "grpc e:1 false"},
		{[]string{"ENDPOINT=http://e:1", "PROTOCOL=http/protobuf"}, []string{"--endpoint", "http://c:2", "--protocol", "grpc"}, "grpc c:2 false"},
		{[]string{"HEADERS=Authorization=Basic%20a,b=c", "TRACES_HEADERS=Authorization=Bearer%20b, d = e"}, []string{"--header", "x=1"}, "grpc localhost:4317 false map[authorization:Bearer b d:e x:1]"},
	} {
		k := kit.New(nil, nil, nil)
		k.LookupEnv = func(name string) (string, bool) {
			for _, e := range c.env {
				if value, ok := strings.CutPrefix(e, strings.TrimPrefix(name, "OTEL_EXPORTER_OTLP_")+"="); ok {
					return value, true
				}
			}
			return "", false
		}
		f := &otlpOptions{protocol: kit.NewChoice(protocolGRPC, "protocol", protocolGRPC, protocolHTTP), timeout: time.Second}
		cmd := newOTLPCmd(k, "test")
		if err := cmd.Flags().Parse(c.args); err != nil {
			t.Fatal(err)
		}
		flag := cmd.Flags().Lookup
		f.endpoint, f.insecure, f.protocol.Value = flag("endpoint").Value.String(), flag("insecure").Changed, flag("protocol").Value.String()
		f.headers, _ = cmd.Flags().GetStringArray("header")
		got, err := f.collector(k, cmd, "test")
		if err != nil {
			t.Errorf("%v %v: %v", c.env, c.args, err)
			continue
		}
		text := fmt.Sprintf("%s %s %v", got.protocol, got.Target, got.TLS != nil)
		if len(got.Headers) > 0 {
			text += fmt.Sprint(" ", got.Headers)
		}
		if text != c.want {
			t.Errorf("%v %v: %s, want %s", c.env, c.args, text, c.want)
		}
	}
}
