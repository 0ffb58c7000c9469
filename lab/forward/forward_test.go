// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

func mustParse(t *testing.T, s string) Dist {
	t.Helper()
	d, err := ParseDist(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sendFrames sends n frames of an experimental type, numbered, from h1's eth0.
func (w *world) sendFrames(t *testing.T, n int, gap time.Duration, size func(i int) int) {
	t.Helper()
	var err error
	w.within(t, "h1", func() { err = sendFrames(n, gap, size) })
	if err != nil {
		t.Fatal(err)
	}
}

func sendFrames(n int, gap time.Duration, size func(i int) int) error {
	port, err := nstest.OpenFrames("eth0")
	if err != nil {
		return err
	}
	defer port.Close()
	next := time.Now()
	for i := range n {
		time.Sleep(time.Until(next))
		next = next.Add(gap)
		if err := port.Send(testFrame(i, size(i))); err != nil {
			return fmt.Errorf("send frame %d: %w", i, err)
		}
	}
	return nil
}

// testFrame has no address that anybody listens to, so that no kernel answers. Every third has
// a VLAN tag.
func testFrame(i, size int) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	if i%3 == 0 {
		b = append(b, 0x81, 0x00, 0x60, 0x2a)
	}
	b = append(b, 0x88, 0xb5)
	b = binary.BigEndian.AppendUint32(b, uint32(i))
	for len(b) < size {
		b = append(b, byte(len(b)*7+i))
	}
	return b
}

// frameNumber is the number of a test frame.
func frameNumber(data string) int {
	if data[12] == 0x81 {
		data = data[vlanLen:]
	}
	return int(binary.BigEndian.Uint32([]byte(data[14:])))
}

// testFrames is tcpdump's filter for them.
var testFrames = []string{"ether", "src", "02:00:00:00:00:01"}

// TestDelay: the captures on both sides see the delays that the distribution
// gives for the seed, or longer ones, and every byte as it was. How much longer depends on
// what else the machine does: make nightly checks that.
func TestDelay(t *testing.T) {
	const n = 500
	for _, text := range []string{"constant:5ms", "uniform:1ms,4ms", "exponential:2ms"} {
		t.Run(text, func(t *testing.T) {
			w := newWorld(t, "")
			dist := mustParse(t, text)
			for end := time.Now().Add(patience); ; {
				late := w.lateness(t, dist, n)
				if late[n/2] < maxMedian || !need.IsNightly(t) {
					break
				}
				if time.Now().After(end) {
					t.Errorf("frames are %v late in the median, want less than %v", late[n/2], maxMedian)
					break
				}
			}
		})
	}
}

// maxMedian is how late half of the frames may be, in the best of some attempts, where
// times are checked: other work on the machine delays the forwarder for milliseconds.
const maxMedian = 200 * time.Microsecond

// lateness sends n frames through the forwarder and returns how much later than
// asked they have left, sorted.
func (w *world) lateness(t *testing.T, dist Dist, n int) []time.Duration {
	t.Helper()
	w.forward(t, Config{Delay: dist, Reorder: true, Seed: 3})
	before := w.capture(t, "h1", "out", n, testFrames...)
	after := w.capture(t, "h2", "in", n, testFrames...)
	w.sendFrames(t, n, 500*time.Microsecond, func(i int) int { return 60 + i%1400 })
	sent, got := before(), after()
	w.stop()
	if len(sent) != n || len(got) != n {
		t.Fatalf("%d frames sent, %d arrived, want %d", len(sent), len(got), n)
	}
	arrived := make(map[int]captured)
	for _, f := range got {
		arrived[frameNumber(f.data)] = f
	}
	want := wantDelays(dist, n)
	var late []time.Duration
	for i, f := range sent {
		if arrived[i].data != f.data {
			t.Fatalf("frame %d: bytes\n%x\narrived as\n%x", i, f.data, arrived[i].data)
		}
		late = append(late, arrived[i].at.Sub(f.at)-want[i])
	}
	slices.Sort(late)
	t.Logf("later than asked: least %v, median %v, p99 %v, most %v", late[0], late[n/2], late[n*99/100], late[n-1])
	if late[0] < 0 {
		t.Errorf("a frame was %v early", -late[0])
	}
	if c := w.fwd.Counts(); c[0].In != uint64(n) || c[0].Out != uint64(n) || c[1].In != 0 {
		t.Errorf("counts %+v", c)
	}
	return late
}

// wantDelays are the delays of the first n frames with seed 3: for each a number
// that decides on loss, then the delay.
func wantDelays(d Dist, n int) []time.Duration {
	r := newRand(3, 0)
	list := make([]time.Duration, n)
	for i := range list {
		r.Float64()
		list[i] = d.Sample(r)
	}
	return list
}

// TestOrder: without Reorder frames keep their order whatever their delays.
func TestOrder(t *testing.T) {
	const n = 2000
	for _, reorder := range []bool{false, true} {
		w := newWorld(t, "")
		w.forward(t, Config{Delay: mustParse(t, "uniform:0ms,10ms"), Reorder: reorder, Seed: 3})
		after := w.capture(t, "h2", "in", n, testFrames...)
		w.sendFrames(t, n, 100*time.Microsecond, func(int) int { return 60 })
		got := after()
		overtakes := 0
		for i := 1; i < len(got); i++ {
			if frameNumber(got[i].data) < frameNumber(got[i-1].data) {
				overtakes++
			}
		}
		if len(got) != n || reorder != (overtakes > n/10) || !reorder && overtakes > 0 {
			t.Errorf("Reorder %v: %d of %d frames arrived, %d behind a later one", reorder, len(got), n, overtakes)
		}
		w.stop()
		if err := w.Down(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLossIsByTheSeed: the captures miss exactly the frames that the seed says,
// twice the same.
func TestLossIsByTheSeed(t *testing.T) {
	const n = 2000
	w := newWorld(t, "")
	var lost [2][]int
	for round := range lost {
		w.forward(t, Config{Loss: 0.1, Seed: 42})
		before := w.capture(t, "h1", "out", n, testFrames...)
		after := w.captureSome(t, "h2", "in", func() int { return int(w.passed(t, n)) }, testFrames...)
		w.sendFrames(t, n, 50*time.Microsecond, func(int) int { return 100 })
		sent, got := before(), after()
		w.stop()
		there := make(map[int]bool)
		for _, f := range got {
			there[frameNumber(f.data)] = true
		}
		for i := range sent {
			if !there[i] {
				lost[round] = append(lost[round], i)
			}
		}
		c := w.fwd.Counts()[0]
		if c.In != n || c.Lost != uint64(len(lost[round])) || c.Out != uint64(len(got)) || c.Full+c.Overrun+c.Refused > 0 {
			t.Errorf("captures: %d sent, %d arrived, %d lost; counts %+v", len(sent), len(got), len(lost[round]), c)
		}
	}
	if k := len(lost[0]); k < n/10-60 || k > n/10+60 {
		t.Errorf("%d of %d frames lost, want about a tenth", k, n)
	}
	if !slices.Equal(lost[0], lost[1]) {
		t.Error("the same seed lost other frames")
	}
}

// passed waits until the forwarder has let pass or lost n frames and says how many passed.
func (w *world) passed(t *testing.T, n uint64) uint64 {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if c := w.fwd.Counts()[0]; c.In == n && c.Out+c.Lost == n {
			return c.Out
		} else if time.Now().After(deadline) {
			t.Fatalf("counts %+v, want what became of %d frames", c, n)
		}
	}
}

// TestQueueIsBounded: a queue of 10 at 100 kbit/s keeps 10 of 100 frames and lets
// them out at that rate.
func TestQueueIsBounded(t *testing.T) {
	w := newWorld(t, "")
	w.forward(t, Config{Rate: 100_000, Queue: 10})
	before, after := w.capture(t, "h1", "out", 100, testFrames...), w.capture(t, "h2", "in", 10, testFrames...)
	start := time.Now()
	w.sendFrames(t, 100, 0, func(int) int { return 1250 })
	nstest.WaitFor(t, "100 frames to be read", func() bool { return w.fwd.Counts()[0].In == 100 })
	left := int(time.Since(start) / (100 * time.Millisecond)) // at most, meanwhile: they made room
	sent, got := before(), after()
	w.stop()
	if c := w.fwd.Counts()[0]; c.In != 100 || c.Full+c.Out+c.Queued != 100 || c.Out < 10 || int(c.Full) < 85-left || len(got) < 10 {
		t.Fatalf("%d frames arrived, counts %+v, %d may have left early: want about 10 of 100", len(got), c, left)
	}
	// Each may be late, as the machine has time, but not early.
	for i, f := range got[:10] {
		if at := f.at.Sub(sent[0].at); at < time.Duration(i+1)*100*time.Millisecond {
			t.Errorf("frame %d of 100 ms each left after %v", i, at)
		}
	}
	if took := got[9].at.Sub(sent[0].at); need.IsNightly(t) && took > 4*time.Second {
		t.Errorf("10 frames of 100 ms each took %v", took)
	}
}

// TestOffloads: TCP passes with segmentation offload, as whole trains through
// sockets and taps, and without.
func TestOffloads(t *testing.T) {
	taps := `ip link add br0 type bridge; ip link add br1 type bridge; ip link set br0 up; ip link set br1 up
ip link set eth0 master br0; ip link set eth1 master br1`
	for _, tc := range []struct {
		name, script string
		cfg          Config
		long         bool
	}{
		{"offloads", "", Config{}, true},
		{"no offloads", "", Config{}, false},
		{"taps", taps, Config{A: "t0", B: "t1", Tap: true}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.script)
			w.forward(t, tc.cfg)
			if tc.cfg.Tap {
				w.run(t, "f", "ip", "link", "set", "t0", "master", "br0")
				w.run(t, "f", "ip", "link", "set", "t1", "master", "br1")
			}
			if !tc.long {
				for _, host := range []string{"h1", "h2"} {
					w.run(t, host, "ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off", "gro", "off")
				}
			}
			w.run(t, "h1", "ping", "-c", "3", "-i", "0.2", "-W", "60", "10.0.0.2")
			server := w.Command(t.Context(), "h2", "iperf3", "-s", "-1", "--forceflush")
			out, err := server.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			defer server.Wait()
			defer server.Process.Kill()
			line := make([]byte, 512)
			if n, err := out.Read(line); err != nil || !strings.Contains(string(line[:n]), "---") {
				t.Fatalf("iperf3 server: %v %s", err, line[:n])
			}
			report := w.run(t, "h1", "iperf3", "-c", "10.0.0.2", "-n", "50M", "-f", "m")
			w.stop()
			c := w.fwd.Counts()[0]
			t.Logf("%s\n%+v", lastLines(report, 4), c)
			const segments = 50 << 20 / 1448
			if long := c.In < segments/2; long != tc.long {
				t.Errorf("%d frames for %d segments: want whole trains %v", c.In, segments, tc.long)
			}
			if c.Refused+c.Skipped > 0 {
				t.Errorf("counts %+v: want no frame refused or skipped", c)
			}
		})
	}
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// TestOwnFramesStay: what the machine itself sends out of one interface does not
// leave by the other, too.
func TestOwnFramesStay(t *testing.T) {
	w := newWorld(t, "ip address add 10.0.0.9/24 dev eth0")
	w.forward(t, Config{})
	mac := strings.Fields(w.run(t, "f", "ip", "-br", "link", "show", "dev", "eth0"))[2]
	own := w.capture(t, "h2", "in", 0, "ether", "src", mac)
	w.run(t, "f", "ping", "-c", "3", "-i", "0.1", "-W", "60", "10.0.0.1")
	if got := own(); len(got) > 0 {
		t.Errorf("%d frames of the machine's own have been forwarded", len(got))
	}
}

// TestInterfaceGone: the forwarder outlives an interface that goes down, and ends
// with one that goes away.
func TestInterfaceGone(t *testing.T) {
	w := newWorld(t, "")
	var fwd *Forwarder
	var err error
	w.within(t, "f", func() { fwd, err = Open(Config{A: "eth0", B: "eth1"}) })
	if err != nil {
		t.Fatal(err)
	}
	defer fwd.Close()
	done := make(chan error, 1)
	go func() { done <- fwd.Run(context.Background()) }()
	w.run(t, "f", "ip", "link", "set", "eth1", "down")
	w.run(t, "f", "ip", "link", "set", "eth1", "up")
	w.carry(t)
	w.run(t, "h1", "ping", "-c", "1", "-W", "60", "10.0.0.2")
	w.run(t, "f", "ip", "link", "del", "eth1")
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "interface eth1 is gone") {
			t.Errorf("Run = %v: want it to say that eth1 is gone", err)
		}
	case <-time.After(patience):
		t.Fatal("Run goes on without an interface")
	}
}

func TestOpenErrors(t *testing.T) {
	w := newWorld(t, "")
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{A: "eth0", B: "eth0"}, "name two interfaces"},
		{Config{A: "eth0", B: "eth7"}, "interface eth7: find it: no such device"},
		{Config{A: "eth0", B: "eth1", Loss: 1.5}, "loss 1.5"},
		{Config{A: "eth0", B: "eth1", Rate: -1}, "rate -1"},
		{Config{A: "eth0", B: "eth1", Queue: -1}, "queue of -1"},
		{Config{A: "t0", B: "eth1", Tap: true}, "tap eth1: make it:"},
	} {
		var err error
		w.within(t, "f", func() { _, err = Open(tc.cfg) })
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Open(%+v) = %v, want %q in the error", tc.cfg, err, tc.want)
		}
	}
}
