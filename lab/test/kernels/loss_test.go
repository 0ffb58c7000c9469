// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/host/symbols"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// perCause is how many datagrams each cause gets: less than a CPU's backlog holds (1000),
// which would lose some, too.
const perCause = 500

// cause is something at r1 that loses packets.
type cause struct {
	name    string
	dst     net.IP
	arrange func(w *network, t *testing.T)
	loss    record.Loss // its place
	reason  string      // what kernels call it that give reasons
	counted bool        // the queue of r1 toward h2 counts what it lost
}

// causes are arranged one after the other, and stay.
var causes = []cause{{
	name: "no-route", dst: addrNone, arrange: func(*network, *testing.T) {},
	loss: record.Loss{Node: "r1", Port: "e0", At: record.AtNode}, reason: "IP_INNOROUTES",
}, {
	name: "netem", dst: addrH2, arrange: (*network).loseThird, counted: true,
	loss: record.Loss{Node: "r1", Port: "e1", At: record.AtQueue, Qdisc: "netem"}, reason: "QDISC_DROP",
}, {
	name: "nft", dst: addrH2, arrange: func(w *network, t *testing.T) { in(t, w.r1, dropForwarded) },
	loss: record.Loss{Node: "r1", Port: "e0", At: record.AtNode}, reason: "NETFILTER_DROP",
}}

// TestLosses: what a router loses for different causes is lost in radar's records, each
// packet of it and no other, with place and, where the kernel tells, the cause's name.
func TestLosses(t *testing.T) {
	need.AsRoot(t)
	w, name := newNetwork(t), fmt.Sprintf("rdrkl%d", os.Getpid())
	// What waits for an address to be resolved would be lost, or ask again through netem.
	w.knows(t, w.h1, "e0", w.r1, "e0", addrR1a)
	w.knows(t, w.r1, "e1", w.h2, "e0", addrH2)
	o := program.DefaultOptions()
	o.Slots, o.Hook, o.Lease = 1<<16, program.HookClsact, 0
	res := w.attach(t, name, &o)
	t.Cleanup(func() { detach(t, name) })
	in(t, w.h2, func() error { // else h2 would answer that nobody listens
		c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: udpPort})
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	})
	reasons := program.Probe().DropReason
	for i, c := range causes {
		t.Run(c.name, func(t *testing.T) {
			c.arrange(w, t)
			c.test(t, w, res.Domain, i*perCause, reasons)
		})
	}
}

// test sends datagrams, numbered from first on, and holds their records against what the
// kernel counts.
func (c *cause) test(t *testing.T, w *network, d *domain.Domain, first int, reasons bool) {
	arrived, dropped := w.lose(t, c.dst, first, c.counted)
	if !c.counted {
		dropped = perCause
	}
	if arrived+dropped != perCause || dropped == 0 || c.counted && arrived == 0 {
		t.Fatalf("of %d datagrams %d arrived, %d were lost", perCause, arrived, dropped)
	}
	recs := waitForRecords(t, d, first, perCause)
	delivered := 0
	lost := slices.DeleteFunc(recs, func(r record.Record) bool {
		if r.State == record.Delivered {
			delivered++
		}
		return r.State == record.Delivered
	})
	t.Logf("%d datagrams: %d arrived, %d lost; records: %d delivered, %d lost", perCause, arrived, dropped, delivered, len(lost))
	if delivered != arrived || len(lost) != dropped {
		t.Errorf("records tell of %d delivered and %d lost, want %d and %d", delivered, len(lost), arrived, dropped)
	}
	for i, r := range shown(t, lost) {
		if err := c.named(&r, reasons); err != nil {
			t.Errorf("%v: %+v", err, r)
			return // one is enough to read
		}
		if i == 0 {
			t.Logf("lost datagram: %+v", *r.Loss)
		}
	}
}

// named says what is wrong with the record of a packet that the cause has lost.
func (c *cause) named(r *record.Record, reasons bool) error {
	if r.State != record.Lost || r.Loss == nil || r.Truncated {
		return fmt.Errorf("state %s, loss %v, truncated %v", r.State, r.Loss, r.Truncated)
	}
	place := record.Loss{Node: r.Loss.Node, Port: r.Loss.Port, At: r.Loss.At, Qdisc: r.Loss.Qdisc}
	if place != c.loss {
		return fmt.Errorf("lost at %+v, want %+v", place, c.loss)
	}
	if r.Loss.Function == "" {
		return errors.New("no function of the kernel is named")
	}
	want := ""
	if reasons {
		want = c.reason
	}
	if r.Loss.Reason != want {
		return fmt.Errorf("reason %q, want %q", r.Loss.Reason, want)
	}
	return nil
}

// lose sends datagrams from h1 and returns how many got to h2, and how many the queue of
// r1 says that it dropped, if that is asked.
func (w *network) lose(t *testing.T, dst net.IP, first int, counted bool) (arrived, dropped int) {
	t.Helper()
	tx, rx := rawSocket(t, w.h1, unix.IPPROTO_RAW), rawSocket(t, w.h2, unix.IPPROTO_UDP)
	if err := unix.SetsockoptInt(rx, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil { // room for all
		t.Fatal(err)
	}
	for seq := range perCause {
		if err := unix.Sendto(tx, datagram(dst, first+seq, payloadBytes), 0, sockaddr(dst)); err != nil {
			t.Fatalf("send datagram %d: %v", seq, err)
		}
	}
	buf := make([]byte, 1<<16)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		for {
			if _, _, err := unix.Recvfrom(rx, buf, unix.MSG_DONTWAIT); err != nil {
				break
			}
			arrived++
		}
		if counted {
			dropped = w.dropped(t)
		}
		if !counted || arrived+dropped >= perCause || time.Now().After(end) {
			return arrived, dropped
		}
	}
}

// dropped is what the queue of r1 toward h2 says that it dropped.
func (w *network) dropped(t *testing.T) (n int) {
	t.Helper()
	in(t, w.r1, func() error {
		link, err := netlink.LinkByName("e1")
		if err != nil {
			return err
		}
		qdiscs, err := netlink.QdiscList(link)
		for _, q := range qdiscs {
			if q.Attrs().Parent == netlink.HANDLE_ROOT {
				n = int(q.Attrs().Statistics.Queue.Drops)
			}
		}
		return err
	})
	return n
}

// loseThird has netem in the place of r1's queue toward h2; it loses 30 %.
func (w *network) loseThird(t *testing.T) {
	t.Helper()
	lacking := false
	in(t, w.r1, func() error {
		link, err := netlink.LinkByName("e1")
		if err != nil {
			return err
		}
		attrs := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
		if err := netlink.QdiscDel(&netlink.Tbf{QdiscAttrs: attrs}); err != nil {
			return fmt.Errorf("delete tbf: %w", err)
		}
		err = netlink.QdiscAdd(netlink.NewNetem(attrs, netlink.NetemQdiscAttrs{Loss: 30, Limit: 10000}))
		if lacking = errors.Is(err, unix.ENOENT); lacking {
			return nil
		}
		return err
	})
	if lacking {
		need.Lack(t, need.Kernel, "sch_netem")
	}
}

// knows gives node the address of a neighbour's port for good.
func (w *network) knows(t *testing.T, node topo.NodeSpec, port string, other topo.NodeSpec, peer string, ip net.IP) {
	t.Helper()
	var mac net.HardwareAddr
	in(t, other, func() error {
		link, err := netlink.LinkByName(peer)
		if err == nil {
			mac = link.Attrs().HardwareAddr
		}
		return err
	})
	in(t, node, func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: ip, HardwareAddr: mac})
	})
}

// waitForRecords reads the records of n datagrams, numbered from first on, once all are
// there and none is in flight.
func waitForRecords(t *testing.T, d *domain.Domain, first, n int) []record.Record {
	t.Helper()
	maps, err := backpack.Open(d)
	if err != nil {
		t.Fatalf("open the ring: %v", err)
	}
	defer maps.Close()
	other := func(r record.Record) bool { return r.IPID < datagramID(first) || r.IPID >= datagramID(first+n) }
	inFlight := func(r record.Record) bool { return r.State == record.InFlight }
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		recs, _, err := backpack.Scan(maps, backpack.NewDecoder(d, symbols.Load()), backpack.ScanOptions{})
		if err != nil {
			t.Fatalf("read the ring: %v", err)
		}
		s := sortRecords(recs)
		recs = slices.DeleteFunc(slices.Concat(s.datagrams, s.lost), other)
		if len(recs) >= n && !slices.ContainsFunc(recs, inFlight) || time.Now().After(end) {
			return recs
		}
	}
}
