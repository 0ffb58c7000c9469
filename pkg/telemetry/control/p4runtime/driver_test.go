// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/p4rt"
	radarp4 "github.com/vnetradar/radar/p4"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// device is a switch at an address.
func device(address string) control.Device {
	return control.Device{Name: "s1", Driver: "p4runtime", Spec: address, Options: map[string]any{
		"ports": map[string]any{"eth0": 1, "eth1": 2},
		"collector": map[string]any{
			"port": 3, "src_mac": "02:00:00:00:01:03", "dst_mac": "02:00:00:00:00:09", "src": "10.0.9.1",
		},
	}}
}

func connect(t *testing.T, d control.Device) (control.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), nstest.Patience)
	defer cancel()
	c, err := new(Driver).Connect(ctx, d)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func mustConnect(t *testing.T, d control.Device) control.Conn {
	t.Helper()
	c, err := connect(t, d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func start(t *testing.T, s *p4rt.Server) *p4rt.Server {
	t.Helper()
	if s.Info == nil {
		s.Info = p4rt.ReadInfo(t, radarp4.Info)
	}
	return s.Start(t)
}

// wanted is a state with two entries.
func wanted() control.State {
	return control.State{
		NodeID: 7, DomainID: 9, Mark: "dscp=0x17/0x3f", Collector: netip.MustParseAddrPort("10.0.9.9:32766"), Report: "2.0", Quote: 32,
		Ports: []control.DevicePort{{Name: "eth0", Role: control.Edge}, {Name: "eth1", Role: control.Transit, MTU: 1400}},
		Entries: []control.Entry{
			{Intent: "web", Slice: control.Slice{Src: []string{"10.1.0.0/16"}, Dst: []string{"2001:db8::1"}, Proto: "tcp", Dport: []string{"80"}, Sport: []string{"1024-2047"}}, Mode: control.MD, Instructions: 0xfc00, Hops: 4, Sample: 10},
			{Intent: "all", Slice: control.Slice{Proto: "udp"}, Mode: control.XD, Instructions: 0x8000},
		},
	}
}

// texts are the entries that the switch holds, as lines.
func texts(t *testing.T, s *p4rt.Server) (lines []string) {
	t.Helper()
	p := newProgram(s.Info, nil)
	for _, e := range s.Held() {
		lines = append(lines, p.Text(e))
	}
	slices.Sort(lines)
	return lines
}

// TestApply: what a state becomes, as docs/p4.md describes the tables; a server that checks every write refuses none, and
// what is there already is not written again, also where it answers with values of full width.
func TestApply(t *testing.T) {
	want := []string{
		"mirroring_add 500 3",
		"table_add int.collectors int.collector_20 3 => 0x20000000103 0x20000000009 0xa000901 0xa000909 32766 32766 32",
		"table_add int.egress_ports int.sink 1 => 0 0xffffffff",
		"table_add int.egress_ports int.transit_out 2 => 1400 0 0xffffffff",
		"table_add int.ingress_ports int.source 1 => 1 0xffffffff",
		"table_add int.ingress_ports int.transit_in 2 => 0xffffffff",
		"table_add int.watchlist int.watch_md 0&&&0 0xffff0a010000&&&0xffffffffffffffffffffffffffff0000 0x20010db8000000000000000000000001&&&0xffffffffffffffffffffffffffffffff 6&&&255 1024&&&64512 80&&&65535 0&&&0 => 64512 9 4 10 1000",
		"table_add int.watchlist int.watch_xd 0&&&0 0&&&0 0&&&0 17&&&255 0&&&0 0&&&0 0&&&0 => 32768 9 1 2000",
		"table_set_default int.settings int.node 7 0 23 63 0 32766 500 0 0xf4240",
	}
	for _, padded := range []bool{false, true} {
		s := start(t, &p4rt.Server{Padded: padded})
		own := &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: 41599463, Match: []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: []byte{2}}}}}}}}
		s.Hold(t, own) // of forwarding: it stays
		c := mustConnect(t, device(s.Address()))
		lines, err := c.Plan(t.Context(), wanted())
		if err != nil || len(lines) != len(want) {
			t.Fatalf("the plan has %d lines, want %d, %v:\n%s", len(lines), len(want), err, strings.Join(lines, "\n"))
		}
		if err := c.Apply(t.Context(), wanted()); err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(texts(t, s), func(l string) bool { return strings.Contains(l, "forward.own_macs") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("padded %v (-want +got):\n%s", padded, diff)
		}
		if lines, err := c.Plan(t.Context(), wanted()); err != nil || len(lines) > 0 {
			t.Errorf("padded %v: what is there is written again: %v, %v", padded, lines, err)
		}
		if ok, err := c.Holds(t.Context()); !ok || err != nil {
			t.Errorf("padded %v: it does not hold what it got: %v", padded, err)
		}
		if err := c.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		if held := s.Held(); len(held) != 2 && len(held) != 3 || len(s.Refused()) > 0 { // defaults, and the own one
			t.Errorf("padded %v: after Clear it holds %v, refused %v", padded, texts(t, s), s.Refused())
		}
	}
}

// randomState is one of many: other roles, marks, entries.
func randomState(r *rand.Rand) control.State {
	want := wanted()
	if r.IntN(4) == 0 {
		want.Mark = "dscp=0x20/0x20"
	}
	if r.IntN(3) == 0 {
		want.Ports[1].Role = control.Edge
	}
	want.Entries = want.Entries[:0]
	for i := range r.IntN(6) {
		want.Entries = append(want.Entries, control.Entry{
			Intent: fmt.Sprint(i), Slice: control.Slice{Dport: []string{fmt.Sprint(1 + r.IntN(5))}}, Mode: control.MD, Instructions: uint16(1+r.IntN(3)) << 13, Sample: uint32(r.IntN(2)),
		})
	}
	if r.IntN(5) == 0 {
		want.Ports, want.Entries = nil, nil
	}
	return want
}

// patience is how long a test asks for what is not there.
const patience = 2 * time.Second

var errCut = errors.New("cut")

// TestCut: wherever writing a state ends, no packet can leave by an edge with INT, and what is written again makes it whole.
func TestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	left := 0
	var unsafe []string
	s := &p4rt.Server{Info: p4rt.ReadInfo(t, radarp4.Info)}
	p := newProgram(s.Info, nil)
	s.OnWrite = func(_ *p4.Update, held map[string]*p4.Entity) error {
		if why := leaks(p, held); why != "" {
			unsafe = append(unsafe, why)
		}
		if left--; left == 0 {
			return errCut
		}
		return nil
	}
	start(t, s)
	cuts := 0
	for i := range 160 {
		c := mustConnect(t, device(s.Address()))
		want := randomState(r)
		left = 1 + r.IntN(5)
		if err := c.Apply(t.Context(), want); err != nil {
			cuts++
			if !strings.Contains(err.Error(), "cut") {
				t.Fatal(err)
			}
		}
		_ = c.Close()
		if len(unsafe) > 0 {
			t.Fatalf("state %d: %v", i, unsafe)
		}
		c, left = mustConnect(t, device(s.Address())), 0
		if err := c.Apply(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if lines, err := c.Plan(t.Context(), want); err != nil || len(lines) > 0 {
			t.Fatalf("state %d: %v, still to be done:\n%s", i, err, strings.Join(lines, "\n"))
		}
		_ = c.Close()
	}
	if cuts < 100 || len(s.Refused()) > 0 {
		t.Errorf("%d cuts, refused: %v", cuts, s.Refused())
	}
}

// leaks says how a packet that gets INT could leave with it: it is watched, and a port with hosts takes nothing off, or
// switches do not know the mark.
func leaks(p *Program, held map[string]*p4.Entity) string {
	watched, mark := false, ""
	role := make(map[string]string)
	for _, e := range held {
		words := strings.Fields(p.Text(normal(e)))
		switch {
		case words[1] == "int.watchlist":
			watched = true
		case words[1] == "int.settings":
			mark = words[2]
		case words[1] == "int.egress_ports":
			role[words[3]] = words[2]
		}
	}
	if !watched {
		return ""
	}
	if mark != "int.node" {
		return "something is watched, and INT is " + mark
	}
	for _, e := range held {
		words := strings.Fields(p.Text(normal(e)))
		if words[1] == "int.ingress_ports" && words[2] == "int.source" && role[words[3]] != "int.sink" {
			return fmt.Sprintf("port %s is a source, and %q takes INT off there", words[3], role[words[3]])
		}
	}
	return ""
}

// TestMarkChanges: before the mark changes nothing is watched any more.
func TestMarkChanges(t *testing.T) {
	held, next := wanted(), wanted()
	next.Mark = "dscp=0x20/0x20"
	s := start(t, new(p4rt.Server))
	c := mustConnect(t, device(s.Address()))
	if err := c.Apply(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	lines, err := c.Plan(t.Context(), next)
	if err != nil || len(lines) != 5 {
		t.Fatalf("%v:\n%s", err, strings.Join(lines, "\n"))
	}
	for i, want := range []string{"- table_add int.watchlist", "- table_add int.watchlist", "~ table_set_default int.settings", "+ table_add int.watchlist", "+ table_add int.watchlist"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}

// TestControllers: the controller with the greatest election id is the one that writes. Another one gets an error, also when it
// was the first.
func TestControllers(t *testing.T) {
	s := start(t, new(p4rt.Server))
	first := mustConnect(t, device(s.Address()))
	if err := first.Apply(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	second := device(s.Address())
	second.Options["election_id"] = 5
	mustConnect(t, second)
	nstest.WaitFor(t, "the first controller to get an error", func() bool {
		_, err := first.Holds(t.Context())
		return errors.Is(err, ErrBackup)
	})
	if err := first.Apply(t.Context(), control.State{}); !errors.Is(err, ErrBackup) {
		t.Errorf("a backup writes: %v", err)
	}
	third := device(s.Address())
	third.Options["election_id"] = 3
	if _, err := connect(t, third); !errors.Is(err, ErrBackup) || !strings.Contains(err.Error(), "5; this one has 3") {
		t.Errorf("a lesser election id: %v", err)
	}
	// It tries until its time is up, and on a busy machine the first answer may come later.
	for wait := patience; ; wait *= 4 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), wait, errors.New("long enough"))
		_, err := new(Driver).Connect(ctx, second)
		cancel()
		if err != nil && strings.Contains(err.Error(), "another controller with election id 5") {
			break
		}
		if err == nil || wait > time.Minute {
			t.Fatalf("the same election id twice: %v", err)
		}
	}
}

// TestRestart: a switch that has lost everything is noticed, gets the program again, and all entries.
func TestRestart(t *testing.T) {
	s := new(p4rt.Server)
	s.Start(t) // without a program
	c := mustConnect(t, device(s.Address()))
	if lines, err := c.Plan(t.Context(), wanted()); err != nil || len(lines) != 11 || !strings.HasPrefix(lines[0], "load the program") || s.Loaded() != 0 {
		t.Fatalf("the plan of a switch without a program: %v, %q; it was loaded %d times", err, lines, s.Loaded())
	}
	if holds, err := c.Holds(t.Context()); err != nil || holds {
		t.Errorf("a switch without a program holds what is wanted: %v, %v", holds, err)
	}
	if err := c.Apply(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	if holds, err := c.Holds(t.Context()); err != nil || !holds || s.Loaded() != 1 {
		t.Fatalf("it holds what it was given: %v, %v; the program was loaded %d times, want once", holds, err, s.Loaded())
	}
	s.Restart(t)
	nstest.WaitFor(t, "the end of the connection", func() bool {
		_, err := c.Holds(t.Context())
		return err != nil
	})
	c = mustConnect(t, device(s.Address()))
	if err := c.Apply(t.Context(), wanted()); err != nil || s.Loaded() != 1 || len(s.Held()) != 10 { // int.reporting among them
		t.Errorf("after the restart: %v, loaded %d times, holds %d entries", err, s.Loaded(), len(s.Held()))
	}
	// Somebody else removes what is watched.
	held := s.Held()
	s.Drop(held[slices.IndexFunc(held, func(e *p4.Entity) bool { return e.GetTableEntry().GetTableId() == 48132632 })])
	if ok, err := c.Holds(t.Context()); ok || err != nil {
		t.Errorf("an entry is gone, and it holds all: %v, %v", ok, err)
	}
}

// TestPipeline: what becomes of the program of a switch.
func TestPipeline(t *testing.T) {
	info := p4rt.ReadInfo(t, radarp4.Info)
	info.Tables = info.Tables[1:] // without int.watchlist
	for _, c := range []struct {
		pipeline string
		has      string
		loaded   int
		err      string
	}{
		{"auto", "none", 1, ""}, {"auto", "ours", 0, ""}, {"auto", "other", 0, "lacks int.watchlist"},
		{"keep", "none", 0, "pipeline: keep says that none is loaded"}, {"keep", "ours", 0, ""}, {"keep", "other", 0, "lacks int.watchlist"},
		{"push", "none", 1, ""}, {"push", "ours", 0, ""}, {"push", "other", 1, ""}, {"push", "older", 1, ""}, {"auto", "older", 0, ""},
	} {
		s := &p4rt.Server{}
		switch c.has {
		case "ours":
			s.Info, s.Config = p4rt.ReadInfo(t, radarp4.Info), radarp4.JSON
		case "older": // with the same tables
			s.Info, s.Config = p4rt.ReadInfo(t, radarp4.Info), []byte("{}")
		case "other":
			s.Info = info
		}
		s.Start(t)
		d := device(s.Address())
		d.Options["pipeline"] = c.pipeline
		conn, err := connect(t, d)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s, %s: %v, want %q", c.pipeline, c.has, err, c.err)
		}
		if err == nil {
			if _, err := conn.Plan(t.Context(), wanted()); err != nil || s.Loaded() > 0 {
				t.Errorf("%s, %s: the plan: %v; the program was loaded %d times for it", c.pipeline, c.has, err, s.Loaded())
			}
			if err := conn.Clear(t.Context()); c.loaded > 0 && (err != nil || s.Loaded() > 0) {
				t.Errorf("%s, %s: clearing what has nothing: %v; the program was loaded %d times for it", c.pipeline, c.has, err, s.Loaded())
			}
			if err := conn.Apply(t.Context(), wanted()); err != nil {
				t.Errorf("%s, %s: %v", c.pipeline, c.has, err)
			}
		}
		if s.Loaded() != c.loaded {
			t.Errorf("%s, %s: loaded %d times, want %d", c.pipeline, c.has, s.Loaded(), c.loaded)
		}
	}
}

// TestTLS: a switch whose certificate nobody trusts is refused.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	s := start(t, &p4rt.Server{TLS: &tls.Config{Certificates: web.TLS.Certificates}})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	d := device(s.Address())
	d.Options["tls"] = map[string]any{"ca": ca, "server_name": "example.com"}
	if err := mustConnect(t, d).Apply(t.Context(), wanted()); err != nil {
		t.Error(err)
	}
	for name, options := range map[string]any{"unknown authority": map[string]any{"server_name": "example.com"}, "not elsewhere": map[string]any{"ca": ca, "server_name": "elsewhere"}} {
		d := device(s.Address())
		d.Options["tls"] = options
		ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("too long"))
		_, err := new(Driver).Connect(ctx, d)
		cancel()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// TestNoSwitch: one that is silent, and one that speaks something else, do not hold up who asks.
func TestNoSwitch(t *testing.T) {
	for _, answer := range []string{"", "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, answer)
				t.Cleanup(func() { conn.Close() })
			}
		}()
		ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("long enough"))
		_, err = new(Driver).Connect(ctx, device(l.Addr().String()))
		cancel()
		if err == nil || !strings.Contains(err.Error(), "long enough") || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("answer %q: %v", answer, err)
		}
	}
}

// TestCheck: options that make no sense are refused, and the error names the field.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		options map[string]any
		want    string
	}{
		{map[string]any{"colector": 1}, `options.colector: driver p4runtime has no such option`},
		{map[string]any{"device_id": "one"}, `options.device_id: a string does not fit there`},
		{map[string]any{"pipeline": "always"}, `options.pipeline: "always": use auto, keep or push`},
		{map[string]any{"ports": map[string]any{"eth0": 512}}, `options.ports.eth0: 512: v1model has ports 0 to 511`},
		{map[string]any{"collector": nil}, `options.collector: how do reports get to the collector?`},
		{map[string]any{"collector": map[string]any{"port": 3, "src_mac": "x"}}, `options.collector.src_mac: "x" is no MAC address`},
		{map[string]any{"collector": map[string]any{"prot": 3}}, `options.collector: unknown field "prot"`},
		{map[string]any{"report": "some"}, `options.report: "some": use all or changes`},
		{map[string]any{"foreign": "keep"}, `options.foreign: "keep": use pass or drop`},
		{map[string]any{"mtu": 3}, `options.mtu: 3: use 68 to 65535`},
		{map[string]any{"p4info": "x"}, `options.p4info: give config, too`},
		{map[string]any{"tls": map[string]any{"ca": "/nowhere"}}, ``},
	} {
		d := device("127.0.0.1:9559")
		maps.Copy(d.Options, c.options)
		if c.options["collector"] == nil && strings.Contains(c.want, "collector: how") {
			delete(d.Options, "collector")
		}
		err := new(Driver).Check(d)
		if c.want == "" {
			if err != nil {
				t.Errorf("%v: %v", c.options, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, fault.Usage) {
			t.Errorf("%v: %v, want %q", c.options, err, c.want)
		}
	}
	d := device("nowhere")
	if err := new(Driver).Check(d); err == nil || !strings.HasPrefix(err.Error(), "spec: ") {
		t.Errorf("spec: %v", err)
	}
}

// TestRefused: what tables cannot hold is refused before anything is written.
func TestRefused(t *testing.T) {
	s := start(t, new(p4rt.Server))
	c := mustConnect(t, device(s.Address()))
	for name, change := range map[string]func(*control.State){
		`port "eth9" has no number; there are eth0, eth1, numbers`:  func(w *control.State) { w.Ports[0].Name = "eth9" },
		"reports of P4 switches go over IPv4":                       func(w *control.State) { w.Collector = netip.MustParseAddrPort("[::1]:1") },
		`intent web: tables do not match expressions such as "tcp"`: func(w *control.State) { w.Entries[0].Slice = control.Slice{Expr: "tcp"} },
		"ports 1-3 are no prefix":                                   func(w *control.State) { w.Entries[0].Slice.Dport = []string{"1-3"} },
		`mode "backpack" is not one of P4 switches`:                 func(w *control.State) { w.Entries[0].Mode = control.Backpack },
		"table int.watchlist has room for 1024 entries, and 1025 are wanted": func(w *control.State) {
			w.Entries = slices.Repeat(w.Entries[:1], 1025)
		},
	} {
		want := wanted()
		change(&want)
		if err := c.Apply(t.Context(), want); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	if held := s.Held(); len(held) > 0 {
		t.Errorf("something was written: %v", texts(t, s))
	}
}
