// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/host/symbols"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Datagrams that are cut into four fragments each, for a port where nobody listens.
const (
	bigDatagrams = 5
	bigBytes     = 5000
	fragmentsOf  = 4
	closedPort   = 9
)

// TestFragmentsFreed: four fragments arrive, are joined, and the kernel frees all of them at
// once with the datagram, which nobody wants. That is no drop of the single fragments.
func TestFragmentsFreed(t *testing.T) {
	need.AsRoot(t)
	if !program.Probe().DropHook {
		need.Lack(t, need.Kernel, "tp_btf/kfree_skb")
	}
	w, name := newNetwork(t), fmt.Sprintf("rdrkf%d", os.Getpid())
	o := program.DefaultOptions()
	o.Slots, o.Hook, o.Lease = 1<<16, program.HookClsact, 0
	res := w.attach(t, name, &o)
	t.Cleanup(func() { detach(t, name) })
	in(t, w.h1, func() error {
		// Not connected: an error that comes back is for nobody.
		c, err := net.ListenUDP("udp4", &net.UDPAddr{})
		if err != nil {
			return err
		}
		defer c.Close()
		for range bigDatagrams {
			if _, err := c.WriteTo(make([]byte, bigBytes), &net.UDPAddr{IP: addrH2, Port: closedPort}); err != nil {
				return err
			}
		}
		return nil
	})
	recs := waitForFragments(t, res.Domain)
	if len(recs) != bigDatagrams*fragmentsOf {
		t.Errorf("records of %d fragments, want %d", len(recs), bigDatagrams*fragmentsOf)
	}
	for _, r := range recs {
		if r.State != record.Delivered || r.Loss != nil || r.LocalDrop != nil {
			t.Errorf("fragment at %d: %s, loss %+v, dropped after delivery %+v", *r.FragOff, r.State, r.Loss, r.LocalDrop)
		}
	}
}

// waitForFragments reads the records of fragments once all are there, have ended, and have been
// freed: the drop hook has met all but the first of each datagram.
func waitForFragments(t *testing.T, d *domain.Domain) []record.Record {
	t.Helper()
	maps, err := backpack.Open(d)
	if err != nil {
		t.Fatalf("open the ring: %v", err)
	}
	defer maps.Close()
	unfinished := func(r record.Record) bool { return r.State == record.InFlight }
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		met := lossesMet(t, d)
		recs, _, err := backpack.Scan(maps, backpack.NewDecoder(d, symbols.Load()), backpack.ScanOptions{})
		if err != nil {
			t.Fatalf("read the ring: %v", err)
		}
		recs = slices.DeleteFunc(recs, func(r record.Record) bool { return r.FragOff == nil })
		if met >= bigDatagrams*(fragmentsOf-1) && len(recs) >= bigDatagrams*fragmentsOf && !slices.ContainsFunc(recs, unfinished) {
			return recs
		}
		if time.Now().After(end) {
			t.Fatalf("the drop hook has met %d fragments, there are %d records", met, len(recs))
		}
	}
}

// lossesMet is how many packets of ours the drop hook has met, whatever it made of them.
func lossesMet(t *testing.T, d *domain.Domain) (n uint64) {
	t.Helper()
	h, err := datapath.Open(d.Name)
	if err != nil {
		t.Fatalf("open the domain: %v", err)
	}
	defer h.Close()
	counters, err := h.Counters()
	if err != nil {
		t.Fatalf("read counters: %v", err)
	}
	for _, c := range counters {
		switch c.Name {
		case "loss_ignored", "local_drop", "loss_event":
			n += c.Value
		}
	}
	return n
}
