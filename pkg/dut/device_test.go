// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/forward"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host"
)

// forwarder lets radar's own forwarder be the device.
func (w *world) forwarder(cfg forward.Config) *forward.Forwarder {
	w.t.Helper()
	ns, _, err := host.OpenNetns(w.Path("dev"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer ns.Close()
	cfg.A, cfg.B = "e0", "e1"
	for _, node := range []string{"blue", "red"} { // what they send by themselves it would count, too
		w.Run(node, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
	}
	var f *forward.Forwarder
	if err := host.InNetns(ns, func() (err error) { f, err = forward.Open(cfg); return err }); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, f.Close()); err != nil {
			w.t.Error(err)
		}
	})
	w.open()
	return f
}

func dist(t *testing.T, text string) forward.Dist {
	t.Helper()
	d, err := forward.ParseDist(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDelay: a device that delays each packet, and then needs its time for each bit of it. No packet is
// faster; how much slower some are depends on how busy the machine is.
func TestDelay(t *testing.T) {
	const delay, rate = 5 * time.Millisecond, 10e6
	w := newWorld(t)
	w.forwarder(forward.Config{Delay: dist(t, "5ms"), Rate: rate})
	r := w.rig(Wish{}, Config{Round: true})
	rows := []Row{}
	for _, size := range []int{64, 512, 1024, 1518} {
		// Also if all come late at once: the forwarder has begun with the next one only when it is
		// done with the one before.
		o := w.run(r, Trial{Size: size, PPS: 100, Packets: 20})
		least := int64(delay) + int64(float64(8*(size-fcsLen))/rate*1e9)
		for i, factor := range []int64{1, 1, 2} {
			s := &o.Streams[i]
			if d := summarise(s.Delays); s.Received != 20 || d.MinNs < factor*least || d.P50Ns < d.MinNs || d.MeanNs < float64(d.MinNs) {
				t.Errorf("size %d, %s: %+v, %+v; want at least %v", size, s.Direction, s, d.Figures, time.Duration(factor*least))
			}
		}
		rows = append(rows, rowsOf(o, RateOf(100))[0])
	}
	for _, f := range fit(rows) {
		t.Logf("%s: %.1f ns/byte, %.3f ms", f.Of, f.Slope.Value, f.Intercept.Value/1e6)
		if f.Of == OfInterval {
			t.Errorf("a lone packet does not wait for others: %+v", f)
		}
	}
}

// TestForwarderCounts: what the forwarder says of losses and of packets that overtook is what the rig says.
func TestForwarderCounts(t *testing.T) {
	w := newWorld(t)
	f := w.forwarder(forward.Config{Delay: dist(t, "uniform:0ms,20ms"), Loss: 0.2, Reorder: true, Seed: 4})
	r := w.rig(Wish{}, Config{})
	red := w.capture("red", "e0")
	before := f.Counts()[0]
	o := w.run(r, Trial{Size: 64, PPS: 2000, Packets: 500})
	now := f.Counts()[0]
	s := &o.Streams[0]
	list := red.stop(r, r.trial, s.Received)
	late, highest := 0, -1
	for _, one := range list {
		if int(one.seq) < highest {
			late++
		}
		highest = max(highest, int(one.seq))
	}
	if s.Lost() != int(now.Lost-before.Lost) || s.Lost() == 0 || s.Reordered != late || late == 0 {
		t.Errorf("lost %d, reordered %d; the forwarder has lost %d, and %d are out of order in the capture", s.Lost(), s.Reordered, now.Lost-before.Lost, late)
	}
}

// TestTBF: a token bucket lets no more bytes pass in any time than its rate and its burst. A lone packet
// finds tokens, and passes at once; where there are always packets, they come at the bucket's pace.
func TestTBF(t *testing.T) {
	const rate, burst, n = 10e6, 3000, 400
	w := newWorld(t).router()
	w.Run("dev", "tc", "qdisc", "add", "dev", "e1", "root", "tbf", "rate", "10mbit", "burst", "3000", "limit", "10mb")
	r := w.rig(Wish{}, Config{})
	for _, size := range []int{256, 1024, 1518} {
		o := w.run(r, Trial{Size: size, Packets: n}) // as fast as the sender can
		s := &o.Streams[0]
		if s.Received != n {
			t.Fatalf("size %d: %+v", size, s)
		}
		bits := float64(8 * (size - fcsLen))
		seconds := n / 2 / s.CamePPS
		if passed := n / 2 * bits; passed > seconds*rate+8*(burst+float64(size)) {
			t.Errorf("size %d: %v bits in %v s", size, passed, seconds)
		}
		// The last packet had all others before it.
		if least := (n*bits - 8*burst) / rate * 1e9; float64(s.Delays[n-1])+float64(n)*1e9/o.SentPPS < least {
			t.Errorf("size %d: the last packet took %d ns after all were sent in %v s; the bucket needs %v ns", size, s.Delays[n-1], n/o.SentPPS, least)
		}
	}
}

// TestNetem: the kernel's own emulator delays and loses.
func TestNetem(t *testing.T) {
	w := newWorld(t).router()
	if out, err := w.Try("dev", "tc", "qdisc", "add", "dev", "e1", "root", "netem", "delay", "5ms", "loss", "10%", "limit", "10000"); err != nil {
		need.Lack(t, need.Kernel, "netem: "+out)
	}
	r := w.rig(Wish{}, Config{})
	o := w.run(r, Trial{Size: 64, PPS: 2000, Packets: 1000})
	s := &o.Streams[0]
	if d := summarise(s.Delays); d == nil || d.MinNs < int64(5*time.Millisecond) || s.Lost() == 0 {
		t.Errorf("%+v, %+v", s, d)
	}
	if out := w.Run("dev", "tc", "-s", "qdisc", "show", "dev", "e1"); !strings.Contains(out, "dropped "+strconv.Itoa(s.Lost())+",") {
		t.Errorf("%d lost; the qdisc says\n%s", s.Lost(), out)
	}
}

// TestNothingArrives: the error says what left, and what the counters say of it.
func TestNothingArrives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(w *world)
		round bool
		want  []string
	}{
		{"a router that does not forward", func(w *world) { w.Run("dev", "sysctl", "-qw", "net.ipv4.ip_forward=0") }, false,
			[]string{"no test packet arrived at red/e0: 60 left blue/e0 for 10.0.2.1 (", "they stayed in the device, or went elsewhere"}},
		{"a firewall at the way back", func(w *world) {
			w.Run("dev", "nft", "add table ip f; add chain ip f c { type filter hook forward priority 0; }; add rule ip f c iifname e1 drop")
		}, true, []string{"test packets arrived at red/e0, and were sent back; none came back to blue/e0"}},
		{"a queue that drops all", func(w *world) {
			w.Run("blue", "tc", "qdisc", "add", "dev", "e0", "root", "tbf", "rate", "8bit", "burst", "40", "limit", "1")
		}, false, []string{"no test packet arrived at red/e0", "blue/e0 has dropped "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).router()
			r := w.rig(Wish{}, Config{Round: c.round})
			c.spoil(w)
			err := r.warmUp(t.Context(), 64, 0)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want %q", err, want)
				}
			}
		})
	}
}

// TestPorts: what cannot be a port is refused, with what to do.
func TestPorts(t *testing.T) {
	w := newWorld(t)
	ns, _, err := host.OpenNetns(w.Path("blue"))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	refused := func(device, want string) {
		t.Helper()
		_, err := OpenPort("blue/"+device, ns, device)
		if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", device, err, want)
		}
	}
	refused("e7", "there is no interface e7; there is: e0")
	refused("lo", "is no Ethernet interface (loopback)")
	w.Run("dev", "ip", "link", "set", "e0", "down")
	nstest.WaitFor(t, "the carrier to go", func() bool {
		p, err := OpenPort("blue/e0", ns, "e0")
		if err == nil {
			p.Close()
		}
		return err != nil
	})
	refused("e0", "has no carrier: the other end of its link is down")
	w.Run("blue", "ip", "link", "set", "e0", "down")
	refused("e0", "is down: ip link set e0 up")
}

// TestAddresses: where packets go is what the port's routes and neighbours say, unless the user says it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t).router()
	gateway := w.port("dev", "e0").MAC.String()
	a, err := Resolve(t.Context(), w.blue, w.red, Wish{})
	if err != nil || a.ToMAC.String() != gateway || a.From.String() != "10.0.1.1:49152" || a.To.String() != "10.0.2.1:9" {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = Resolve(t.Context(), w.blue, w.red, Wish{IPv6: true})
	if err != nil || a.ToMAC.String() != gateway || a.To.Addr().String() != "2001:db8:2::1" {
		t.Errorf("%+v, %v", a, err)
	}
	const want = "finds no MAC address of 10.0.1.77"
	if _, err := Resolve(t.Context(), w.blue, w.red, Wish{To: netip.MustParseAddr("10.0.1.77")}); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
	bare := newWorld(t).bridge()
	a, err = Resolve(t.Context(), bare.blue, bare.red, Wish{})
	if err != nil || a.ToMAC.String() != bare.red.MAC.String() || a.From.Addr() != benchmarkFrom4 || a.To.Addr() != benchmarkTo4 {
		t.Errorf("ports without addresses: %+v, %v", a, err)
	}
}

// TestPortGoesDown: a port that goes down while packets are sent ends the trial with its name.
func TestPortGoesDown(t *testing.T) {
	w := newWorld(t).bridge()
	r := w.rig(Wish{}, Config{})
	r.enough = func() bool { // is asked before each packet
		if tally, err := r.progs.tally(); err == nil && tally.First[pointSent] == 3 {
			w.Run("blue", "ip", "link", "set", "e0", "down")
		}
		return false
	}
	_, err := r.Run(t.Context(), Trial{Size: 64, PPS: 1000, Packets: 1000, Duration: nstest.Patience})
	if err == nil || !strings.Contains(err.Error(), "blue/e0 is down now, or gone") {
		t.Errorf("%v", err)
	}
}
