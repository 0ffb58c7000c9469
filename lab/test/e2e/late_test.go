// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
)

// lateTimeout is short: packets are to wait for longer.
const lateTimeout = 2 * time.Second

// TestLateThroughForwarder: a forwarder is stopped for longer than the timeout, until other packets have the
// slots of those that it holds. All get their true bytes, and radar counts as late what captures on
// both links show to have waited for so long.
func TestLateThroughForwarder(t *testing.T) {
	const slots = 4096
	n := startLab(t, "forwarded", nil, "10.0.0.1", "10.0.0.2")
	rad := n.attach(t, n.nodes(), "--slots", strconv.Itoa(slots), "--timeout", lateTimeout.String())
	forwarder := n.forward(t, nil, nil, "--queue", "100000")
	for port := range selfPorts {
		n.sink(t, "h2", selfPortBase+port)
	}
	before, behind := n.dumpPort(t, "h1"), n.dumpPort(t, "h2")
	if err := forwarder.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { forwarder.Process.Signal(syscall.SIGCONT) })
	f := &selfFlow{gap: 50 * time.Microsecond, sports: selfSports / kinds, onlyOrdinary: true}
	n.start(t, f, "h1", "h2", 0)
	nstest.WaitFor(t, "slots to be used again", func() bool { return rad.counter(t, "marked") >= slots+slots/4 })
	f.pause.Store(true)
	time.Sleep(2 * lateTimeout) // at least: now all that it holds is late
	if err := forwarder.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "late packets", func() bool { return rad.counter(t, "late") >= slots/2 })
	n.carried(t)
	f.finish(t)
	s := rad.settle(t)
	if err := errors.Join(before.stop(), behind.stop()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d sent; %s", f.sent.Load(), s.notable())
	late, counted := lateByCaptures(t, n, before, behind), rad.counter(t, "late")
	report := &oracle.Report{Title: fmt.Sprintf("forwarder stopped for longer than the timeout: %d packets, %d late", f.sent.Load(), counted)}
	report.Add(f.rowsByKind()[ordinary], &oracle.Row{
		Check: "late = what captures show", Compared: late, Wrong: max(late-counted, counted-late),
	}, s.Totals.row(false))
	keepReport(t, report)
	if !report.OK() {
		t.Error("late packets differ, or are not counted: see the table")
	}
}

// lateByCaptures is how many packets had bits of radar on the first link, and came to the second one when the
// timeout was over.
func lateByCaptures(t *testing.T, n *network, before, behind *tcpdump) (late int) {
	t.Helper()
	in, out := before.probes(t), behind.probes(t)
	src, dst := n.addr(t, "h1").As4(), n.addr(t, "h2").As4()
	for ports, a := range in {
		b, came := out[ports]
		own := selfProbe(nil, src, dst, uint16(ports>>16), uint16(ports), 0)
		if came && string(own[:20]) != string(a.header) && b.at.Sub(a.at) > lateTimeout {
			late++
		}
	}
	return late
}

// probe is a self probe as it was captured.
type probe struct {
	at     time.Time
	header []byte // of IP
}

// probes are those of a capture at a port, by their ports.
func (d *tcpdump) probes(t *testing.T) map[uint32]probe {
	t.Helper()
	f, err := os.Open(d.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint32]probe)
	for {
		b, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return seen
		}
		if err != nil {
			t.Fatal(err)
		}
		const ether, ip, udp = 14, 20, 17
		if len(b) >= ether+ip+4 && b[12] == 8 && b[13] == 0 && b[ether+9] == udp {
			seen[binary.BigEndian.Uint32(b[ether+ip:])] = probe{info.Timestamp, b[ether : ether+ip : ether+ip]}
		}
	}
}
