// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Addresses of the network h1 - r1 - h2, and a destination that r1 does not know.
var (
	addrH1   = net.IPv4(10, 91, 1, 1)
	addrR1a  = net.IPv4(10, 91, 1, 254) // toward h1
	addrR1b  = net.IPv4(10, 91, 2, 254) // toward h2
	addrH2   = net.IPv4(10, 91, 2, 2)
	addrNone = net.IPv4(10, 91, 3, 3)
)

// Rate and buffer of the queue from r1 to h2. The buffer holds no GSO packet
// whole, so the queue cuts them.
const (
	tbfRate   = 25_000_000 // bytes a second
	tbfBurst  = 8_000      // bytes
	tbfLimit  = 4_000_000  // bytes: more than is ever in flight
	tickPerUs = 15.625     // of the kernel's packet scheduler: 64 ns
)

// network is h1 - r1 - h2: namespaces joined by veths, r1 forwards.
type network struct {
	h1, r1, h2 topo.NodeSpec
}

// networks numbers the networks of this process.
var networks atomic.Int32

// newNetwork builds a network; it goes with the test.
func newNetwork(t *testing.T) *network {
	t.Helper()
	n := networks.Add(1)
	w := &network{}
	for _, node := range []struct {
		spec *topo.NodeSpec
		name string
	}{{&w.h1, "h1"}, {&w.r1, "r1"}, {&w.h2, "h2"}} {
		ns := fmt.Sprintf("rdr%d-%d-%s", os.Getpid(), n, node.name)
		makeNamespace(t, ns)
		spec, err := topo.ParseSpec(node.name + "=netns:" + ns)
		if err != nil {
			t.Fatal(err)
		}
		*node.spec = spec
	}
	join(t, w.h1, "e0", w.r1, "e0")
	join(t, w.h2, "e0", w.r1, "e1")
	setAddress(t, w.h1, "e0", addrH1)
	setAddress(t, w.r1, "e0", addrR1a)
	setAddress(t, w.r1, "e1", addrR1b)
	setAddress(t, w.h2, "e0", addrH2)
	setRoute(t, w.h1, addrR1a)
	setRoute(t, w.h2, addrR1b)
	in(t, w.r1, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	})
	w.queue(t)
	return w
}

// makeNamespace makes a named network namespace without IPv6, loopback up.
func makeNamespace(t *testing.T, name string) {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	ns, err := netns.NewNamed(name) // and enter it
	if err != nil {
		t.Fatalf("make namespace %s: %v", name, err)
	}
	ns.Close()
	t.Cleanup(func() {
		if err := netns.DeleteNamed(name); err != nil {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	err = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
	if os.IsNotExist(err) { // a kernel without IPv6
		err = nil
	}
	if err = errors.Join(err, linkUp("lo"), netns.Set(home)); err != nil {
		t.Fatalf("set up namespace %s: %v", name, err) // the thread stays locked, and ends
	}
	runtime.UnlockOSThread()
}

// in runs f in the namespace of a node.
func in(t *testing.T, node topo.NodeSpec, f func() error) {
	t.Helper()
	if err := node.Do(f); err != nil {
		t.Fatalf("in %s: %v", node.Name, err)
	}
}

func linkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// join lays a veth from port pa of node a to port pb of node b.
func join(t *testing.T, a topo.NodeSpec, pa string, b topo.NodeSpec, pb string) {
	t.Helper()
	there, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	in(t, a, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = pa
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: pb, PeerNamespace: netlink.NsFd(there)})
		if err != nil {
			return fmt.Errorf("add veth: %w", err)
		}
		return linkUp(pa)
	})
	in(t, b, func() error { return linkUp(pb) })
	carries(t, a, pa)
	carries(t, b, pb)
}

// carries waits until the kernel has told a node that its link carries: before that the
// port drops what it is to send.
func carries(t *testing.T, node topo.NodeSpec, port string) {
	t.Helper()
	nstest.WaitFor(t, "carrier of "+node.Name+"/"+port, func() (up bool) {
		in(t, node, func() error {
			link, err := netlink.LinkByName(port)
			up = err == nil && link.Attrs().OperState == netlink.OperUp
			return err
		})
		return up
	})
}

func setAddress(t *testing.T, node topo.NodeSpec, port string, ip net.IP) {
	t.Helper()
	in(t, node, func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}})
	})
}

// setRoute makes gateway the way to everywhere.
func setRoute(t *testing.T, node topo.NodeSpec, gateway net.IP) {
	t.Helper()
	in(t, node, func() error { return netlink.RouteAdd(&netlink.Route{Gw: gateway}) })
}

// queue gives r1 a TBF toward h2.
func (w *network) queue(t *testing.T) {
	t.Helper()
	in(t, w.r1, func() error {
		link, err := netlink.LinkByName("e1")
		if err != nil {
			return err
		}
		us := float64(tbfBurst) / tbfRate * 1e6
		err = netlink.QdiscAdd(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{
				LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
			},
			Rate: tbfRate, Limit: tbfLimit, Buffer: uint32(us * tickPerUs),
		})
		if err != nil {
			return fmt.Errorf("add tbf: %w", err)
		}
		return nil
	})
}
