// SPDX-License-Identifier: Apache-2.0

package intnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// managed is a world of which intents are to say what is observed.
func managed(t *testing.T) *world {
	w := newWorld(t)
	nstest.Cleanup(t, func() {
		if t.Failed() {
			out, _ := w.try("int", "devices")
			log, _ := os.ReadFile(filepath.Join(w.state, "intents", w.domain, "service.log"))
			t.Logf("%s\n%s", out, log[max(0, len(log)-8000):])
		}
		if out, err := w.try("int", "stop", "--force"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	w.topology("r1", "r2", "r3")
	return w
}

// topology says which routers are devices.
func (w *world) topology(devices ...string) {
	w.Helper()
	var b strings.Builder
	b.WriteString("nodes:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "  - {name: %s", name)
		if slices.Contains(devices, name) {
			fmt.Fprintf(&b, ", driver: ebpf, spec: 'netns:%s'", w.Net.Name(name))
		}
		b.WriteString("}\n")
	}
	b.WriteString("links:\n")
	for i := range 4 {
		fmt.Fprintf(&b, "  - [%s/e1, %s/e0]\n", names[i], names[i+1])
	}
	file := filepath.Join(w.TempDir(), "topology.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		w.Fatal(err)
	}
	w.radar("int", "topology", "set", "-f", file)
}

// device is one of "radar int devices".
type device struct {
	Name, State, Error string
	Entries, Tries     int
	Notes              []string
}

func (w *world) devices() map[string]device {
	w.Helper()
	var list []device
	if err := json.Unmarshal([]byte(w.radar("int", "devices", "-o", "json")), &list); err != nil {
		w.Fatal(err)
	}
	m := make(map[string]device)
	for _, d := range list {
		m[d.Name] = d
	}
	return m
}

// await waits until devices are in these states, as in "r1 ready".
func (w *world) await(states ...string) {
	w.Helper()
	nstest.WaitFor(w.TB, strings.Join(states, ", "), func() bool {
		have := w.devices()
		for _, s := range states {
			name, state, _ := strings.Cut(s, " ")
			if have[name].State != state {
				return false
			}
		}
		return true
	})
}

// intent is one of "radar int intent list".
type intent struct {
	Name, State string
	Reasons     []struct{ Device, Field, Text string }
}

func (w *world) intents() map[string]intent {
	w.Helper()
	var list []intent
	if err := json.Unmarshal([]byte(w.radar("int", "intent", "list", "-o", "json")), &list); err != nil {
		w.Fatal(err)
	}
	m := make(map[string]intent)
	for _, i := range list {
		m[i.Name] = i
	}
	return m
}

// holds waits until what is wanted is brought to all devices.
func (w *world) holds() {
	w.Helper()
	nstest.WaitFor(w.TB, "what is wanted", func() bool {
		var status struct{ Applied uint64 }
		var wanted struct{ Generation uint64 }
		for file, v := range map[string]any{"status.json": &status, "wanted.json": &wanted} {
			b, err := os.ReadFile(filepath.Join(w.state, "intents", w.domain, file))
			if err != nil || json.Unmarshal(b, v) != nil {
				return false
			}
		}
		return status.Applied == wanted.Generation
	})
}

// servicePID is the process of the service.
func (w *world) servicePID() (pid int) {
	b, _ := os.ReadFile(filepath.Join(w.state, "intents", w.domain, "service.pid"))
	_, _ = fmt.Sscan(string(b), &pid)
	return pid
}

// marked counts the packets that bear the mark.
func marked(list []packet) (n int) {
	for _, p := range list {
		if p.dscp == 0x17 {
			n++
		}
	}
	return n
}

// sent sends packets to a port of h2, and says how many bore INT between r1 and r2, and came to h2 with it.
func (w *world) sent(middle, last *tap, port, n int) (inside, outside int) {
	w.Helper()
	middle.packets(false)
	last.packets(true)
	w.send(flow{"h1", "h2", "10.0.3.2", port, n})
	return marked(ofPort(middle.packets(false), port)), marked(last.packets(true))
}

// An intent leads to INT on the links inside and to none at hosts; without it there is none, and what stop
// leaves is nothing.
func TestIntents(t *testing.T) {
	t.Parallel()
	w := managed(t)
	middle, last := w.capture("r1", "e1"), w.capture("h2", "e0")
	want := func(port, inside int) {
		t.Helper()
		if in, out := w.sent(middle, last, port, 20); in != inside || out != 0 {
			t.Errorf("port %d: %d packets bear INT inside, want %d, and %d at h2", port, in, inside, out)
		}
	}
	w.radar("int", "intent", "add", "one", "--proto", "udp", "--dport", "5001", "--src", "10.0.0.0/24")
	w.radar("int", "start")
	w.await("r1 ready", "r2 ready", "r3 ready")
	want(5001, 20)
	want(5002, 0)
	w.radar("int", "intent", "add", "two", "--expr", "udp port 5002", "--sample", "2")
	w.holds()
	want(5001, 20)
	if in, out := w.sent(middle, last, 5002, 100); in < 10 || in > 90 || out != 0 { // by chance
		t.Errorf("of one in two, %d of 100 bear INT, and %d at h2", in, out)
	}
	w.radar("int", "intent", "remove", "one")
	w.holds()
	want(5001, 0)
	// Of its own packets each device tells, and no packet bears anything.
	w.radar("int", "intent", "add", "card", "--mode", "xd", "--proto", "udp", "--dport", "5003")
	w.holds()
	want(5003, 0)
	if s := w.status(); s.of("r2")["flow_reports"] == 0 || s.of("r1")["flow_reports"] == 0 {
		t.Errorf("nobody tells of postcards: %+v", s.Nodes)
	}
	// Another mark: those under way are freed of theirs first.
	w.radar("int", "config", "set", "--mark", "dscp=0x20/0x20")
	w.holds()
	want(5002, 0)
	ours := 0
	w.send(flow{"h1", "h2", "10.0.3.2", 5002, 20})
	for _, p := range ofPort(middle.packets(false), 5002) {
		if p.dscp&0x20 != 0 {
			ours++
		}
	}
	if ours == 0 {
		t.Error("no packet bears the new mark")
	}
	w.radar("int", "stop")
	w.left()
	want(5002, 0)
}

// An intent ends by itself.
func TestIntentExpires(t *testing.T) {
	t.Parallel()
	w := managed(t)
	middle, last := w.capture("r1", "e1"), w.capture("h2", "e0")
	w.radar("int", "intent", "add", "short", "--dport", "5001", "--lifetime", "10s")
	w.radar("int", "start")
	if in, _ := w.sent(middle, last, 5001, 10); in == 0 && w.intents()["short"].State == "applied" {
		t.Error("no packet bears INT")
	}
	nstest.WaitFor(t, "the end of the intent", func() bool {
		return w.intents()["short"].State == "expired" && w.devices()["r1"].Entries == 0
	})
	if in, out := w.sent(middle, last, 5001, 10); in+out != 0 {
		t.Errorf("%d packets bear INT, %d at h2", in, out)
	}
	if out := w.radar("int", "intent", "export", "-o", "json"); out != `{"intents":[]}`+"\n" {
		t.Errorf("exported: %s", out)
	}
}

// What cannot be is one clear error, or is told of the device that cannot do it.
func TestIntentsRefused(t *testing.T) {
	t.Parallel()
	w := managed(t)
	w.refuses(2, `devices[0]: there is no device "r9": use r1, r2, r3`, "int", "intent", "add", "x", "--device", "r9")
	w.refuses(2, "slice.expr: dport stands beside it", "int", "intent", "add", "x", "--expr", "tcp", "--dport", "80")
	w.radar("int", "intent", "add", "first", "--priority", "100", "--dport", "1")
	w.refuses(1, `"first": there is an intent of that name`, "int", "intent", "add", "first")
	w.refuses(1, `"gone": there is no such intent (see: radar int intent list)`, "int", "intent", "remove", "gone")
	var b strings.Builder
	for i := range 17 {
		fmt.Fprintf(&b, "- {name: i%02d, slice: {dport: %d}}\n", i, 6000+i)
	}
	file := filepath.Join(t.TempDir(), "intents.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out := w.radar("int", "intent", "apply", "-f", file, "--dry-run")
	if !strings.Contains(out, "refused: intent i16, slice: r1 has room for 16 entries") || !strings.Contains(out, "watchlist 16: dst port 6015") {
		t.Errorf("dry run: %s", out)
	}
	w.left() // a dry run changes nothing
	w.radar("int", "intent", "apply", "-f", file)
	w.radar("int", "start")
	nstest.WaitFor(t, "the intent that has no room", func() bool { return w.intents()["i16"].State == "refused" && w.intents()["i15"].State == "applied" })
	if err := os.WriteFile(file, []byte("- name: a\n- {name: b, slice: {dport: 70000}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.refuses(2, `intents[1].slice.dport: "70000": use a port`, "int", "intent", "apply", "-f", file)
	// By hand nothing is changed meanwhile.
	w.refuses(2, "holds what intents ask for", "int", "attach", "--role", "sink", "r1/e0")
}

// A namespace that is removed and made again gets its roles and entries again. While it is not known to take
// INT off, no source gives any.
func TestDeviceComesBack(t *testing.T) {
	t.Parallel()
	w := managed(t)
	middle := w.capture("r1", "e1")
	w.radar("int", "intent", "add", "all", "--proto", "udp")
	w.radar("int", "start")
	w.await("r1 ready", "r2 ready", "r3 ready")
	w.Delete("r3")
	w.await("r1 waiting", "r2 failed", "r3 unreachable") // r2 has lost its link to r3
	if d := w.devices()["r1"]; d.Entries != 0 || !strings.Contains(fmt.Sprint(d.Notes), "while r3 is not known to take it off") {
		t.Errorf("r1: %+v", d)
	}
	last := w.remake("r3")
	w.await("r1 ready", "r2 ready", "r3 ready")
	if in, out := w.sent(middle, last, 5001, 20); in != 20 || out != 0 {
		t.Errorf("%d packets bear INT inside, and %d at h2", in, out)
	}
	// Somebody takes INT off by hand: it is there again.
	w.radar("int", "detach", "r3", "--no-drain")
	nstest.WaitFor(t, "entries at r3", func() bool {
		for _, n := range w.status().Nodes {
			if n.Name == "r3" {
				return w.devices()["r3"].State == "ready"
			}
		}
		return false
	})
	w.await("r1 ready")
	if in, out := w.sent(middle, last, 5001, 20); in != 20 || out != 0 {
		t.Errorf("%d packets bear INT inside, and %d at h2", in, out)
	}
}

// remake makes r3 again, wired and routed as before, and captures at h2.
func (w *world) remake(name string) *tap {
	w.Helper()
	w.Add(name)
	w.wire(2)
	w.wire(3)
	w.Run(name, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	for i := range names {
		w.routes(i)
	}
	return w.capture("h2", "e0")
}

// A device that does not answer holds up no other, and is told.
func TestUnreachableDevice(t *testing.T) {
	t.Parallel()
	w := managed(t)
	middle := w.capture("r1", "e1")
	w.Delete("r3")
	w.radar("int", "intent", "add", "all", "--proto", "udp")
	w.radar("int", "start")
	w.await("r1 waiting", "r2 failed", "r3 unreachable")
	if d := w.devices()["r2"]; !strings.Contains(d.Error, "node r2 has no port e1") {
		t.Errorf("r2: %+v", d)
	}
	d := w.devices()["r3"]
	if !strings.Contains(d.Error, "there is no netns:") || d.Tries == 0 {
		t.Errorf("r3: %+v", d)
	}
	w.radar("int", "stop")
	last := w.remake("r3")
	w.left()
	if in, out := w.sent(middle, last, 5001, 10); in+out != 0 {
		t.Errorf("%d packets bear INT inside, and %d at h2", in, out)
	}
}

// The service is killed again and again while intents change: no packet comes to a host with INT, and in
// the end devices hold what is wanted.
func TestKilledService(t *testing.T) {
	t.Parallel()
	const kills = 100
	w := managed(t)
	at := []*tap{w.capture("h1", "e1"), w.capture("h2", "e0")}
	middle := w.capture("r1", "e1")
	w.radar("int", "intent", "add", "all", "--proto", "udp")
	w.radar("int", "start")
	stop := w.traffic()
	random := rand.New(rand.NewPCG(1, 2))
	leaked, bore := 0, 0
	for i := range kills {
		switch i % 5 {
		case 0:
			w.radar("int", "intent", "add", "more", "--replace", "--dport", fmt.Sprint(5000+i), "--priority", "1")
		case 1:
			w.radar("int", "config", "set", "--mark", []string{"dscp=0x17/0x3f", "dscp=0x27/0x3f"}[i/5%2])
		case 2:
			w.radar("int", "intent", "remove", "all")
		case 3:
			w.topology([][]string{{"r1", "r2"}, {"r1", "r2", "r3"}}[i/5%2]...)
		case 4:
			w.radar("int", "intent", "add", "all", "--proto", "udp")
		}
		w.radar("int", "start", "--no-wait")
		time.Sleep(time.Duration(random.IntN(600)) * time.Millisecond) // anywhere within what it does
		if pid := w.servicePID(); pid > 0 {
			w.kill(pid)
		}
		leaked += bearing(at[0].packets(true)) + bearing(at[1].packets(true))
		bore += bearing(middle.packets(false))
	}
	w.topology("r1", "r2", "r3")
	w.radar("int", "start")
	w.holds()
	stop()
	leaked += bearing(at[0].packets(true)) + bearing(at[1].packets(true))
	if leaked != 0 || bore == 0 {
		t.Errorf("%d packets came to hosts with INT; %d bore it inside", leaked, bore)
	}
	w.radar("int", "config", "set", "--mark", "dscp=0x17/0x3f")
	w.holds()
	description, err := os.ReadFile(filepath.Join(w.state, "int", w.domain, "domain.json"))
	if tcx := bytes.Contains(description, []byte(`"hook": "tcx"`)); err != nil || tcx == kernel.Older(kernel.Release(), 6, 6) {
		t.Errorf("attached by another hook than other domains: %s, %v", description, err)
	}
	if in, out := w.sent(middle, at[1], 5999, 20); in != 20 || out != 0 {
		t.Errorf("in the end %d packets of 20 bear INT, and %d at h2", in, out)
	}
	w.radar("int", "stop")
	w.left()
	t.Logf("killed %d times; %d packets bore INT inside", kills, bore)
}

// bearing counts the packets with either mark, or with a header of INT.
func bearing(list []packet) (n int) {
	for _, p := range list {
		if p.dscp == 0x17 || p.dscp == 0x27 {
			n++
		}
	}
	return n
}

// traffic goes between h1 and h2, both ways, until stop is called.
func (w *world) traffic() (stop func()) {
	w.Helper()
	ends := make(chan struct{})
	var group sync.WaitGroup
	for _, f := range []flow{{from: "h1", address: "10.0.3.2"}, {from: "h2", address: "10.0.0.1"}} {
		w.meet(f.from, f.address)
		var out net.Conn
		w.in(f.from, func() (err error) {
			out, err = net.Dial("udp", f.address+":5999")
			return err
		})
		group.Go(func() {
			defer out.Close()
			for {
				select {
				case <-ends:
					return
				case <-time.After(2 * time.Millisecond):
					_, _ = out.Write([]byte("some payload")) // nobody listens: refused now and then
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(ends); group.Wait() })
}

// TestReportsVia: reports of intents leave from the namespace that the config names, and from no other; which way they
// take is said when it is set.
func TestReportsVia(t *testing.T) {
	t.Parallel()
	w := managed(t)
	w.refuses(2, "use netns:NAME, docker:NAME or pid:N", "int", "config", "set", "--via", "r2")
	if out := w.radar("int", "config", "set", "--via", "netns:"+w.Net.Name("h1"), "--collector", "10.0.2.1:32766"); !strings.Contains(out, "by e1, to router 10.0.0.2") {
		t.Errorf("the way by a router is not said: %s", out)
	}
	if out := w.radar("int", "config", "set", "--via", "netns:"+w.Net.Name("r2"), "--collector", "127.0.0.1:32766"); !strings.Contains(out, "by lo") || strings.Contains(out, "router") {
		t.Errorf("the way is not said: %s", out)
	}
	w.radar("int", "intent", "add", "probes", "--proto", "udp", "--dport", "5001")
	w.radar("int", "start")
	w.await("r1 ready", "r2 ready", "r3 ready")
	w.holds()
	c := w.collector("r2")
	const n = 20
	w.send(flow{"h1", "h2", "10.0.3.2", 5001, n})
	if list := c.reports(n); len(list) != n {
		t.Errorf("%d reports", len(list))
	}
	w.radar("int", "config", "set", "--via", "netns:"+w.Net.Name("r3"))
	w.holds()
	c = w.collector("r3")
	nstest.WaitFor(t, "reports to be sent from r3", func() bool { // the agent notices it at its next look
		w.send(flow{"h1", "h2", "10.0.3.2", 5001, 1})
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := c.Read(make([]byte, 1<<16))
		return err == nil
	})
}
