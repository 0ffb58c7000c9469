// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/e2e/quiet"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// carriedFor is how long no packet must have moved: timers of TCP, such as that of a delayed
// acknowledgement, are shorter.
const carriedFor = 300 * time.Millisecond

// carried waits until no packet is in flight in the network: none waits in a queue or for a
// CPU, and none has been sent on for a while.
func (n *network) carried(t *testing.T) {
	t.Helper()
	var paths []string
	for _, node := range n.nodes() {
		paths = append(paths, n.lab.NetNSPath(node))
	}
	carried(t, paths)
}

// carried is that of network for the namespaces at these paths. One that is gone has no
// packets.
func carried(t *testing.T, paths []string) {
	t.Helper()
	barrier, err := quiet.NewBarrier()
	if err != nil {
		t.Fatal(err)
	}
	defer barrier.Close()
	var nodes []*netlink.Handle
	for _, path := range paths {
		ns, err := netns.GetFromPath(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatalf("open %s: %v", path, err)
		}
		h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
		ns.Close()
		if err != nil {
			t.Fatalf("netlink in %s: %v", path, err)
		}
		defer h.Close()
		nodes = append(nodes, h)
	}
	last, since := uint64(0), time.Now()
	nstest.WaitFor(t, "the last packet to be carried", func() bool {
		if err := barrier.Pass(); err != nil {
			t.Fatal(err)
		}
		sent, queued := sentAndQueued(t, nodes)
		if sent != last || queued {
			last, since = sent, time.Now()
		}
		time.Sleep(carriedFor / 10)
		return time.Since(since) >= carriedFor
	})
}

// sentAndQueued are how many packets all interfaces have sent or received, and whether any
// waits in a queue.
func sentAndQueued(t *testing.T, nodes []*netlink.Handle) (sent uint64, queued bool) {
	t.Helper()
	for _, h := range nodes {
		links, err := h.LinkList()
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			t.Fatalf("list interfaces: %v", err)
		}
		for _, l := range links {
			if s := l.Attrs().Statistics; s != nil {
				sent += s.TxPackets + s.RxPackets
			}
		}
		qdiscs, err := h.QdiscList(nil)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			t.Fatalf("list queues: %v", err)
		}
		for _, q := range qdiscs {
			if s := q.Attrs().Statistics; s != nil && s.Queue != nil && s.Queue.Qlen > 0 {
				queued = true
			}
		}
	}
	return sent, queued
}
