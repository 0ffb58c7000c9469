// SPDX-License-Identifier: Apache-2.0

// Package nstest makes network namespaces and links for tests, and takes them
// away again. Everything has a name that no other test or user has.
package nstest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
)

// Net is a set of namespaces.
type Net struct {
	t      testing.TB
	prefix string
}

// New needs root. It makes the namespaces, with loopback up, and removes them when
// the test ends.
func New(t testing.TB, names ...string) *Net {
	t.Helper()
	need.AsRoot(t)
	n := &Net{t: t, prefix: Unique()}
	for _, name := range names {
		n.Add(name)
	}
	return n
}

// Unique returns a name of nine characters that nobody else has: 30 of its bits are
// random, and thousands of tests may have one at a time.
func Unique() string { return "rdr" + strings.ToLower(rand.Text()[:6]) }

// Name is the full name of a namespace, as in /run/netns.
func (n *Net) Name(name string) string { return n.prefix + name }

// Spec is "name=netns:FULLNAME", which gives the node the short name.
func (n *Net) Spec(name string) string { return name + "=netns:" + n.Name(name) }

// Path is where the namespace can be opened.
func (n *Net) Path(name string) string { return "/run/netns/" + n.Name(name) }

// Add makes one more namespace.
func (n *Net) Add(name string) {
	n.t.Helper()
	Cleanup(n.t, func() { n.Delete(name) })
	if err := add(n.Name(name)); err != nil {
		n.t.Fatalf("make namespace %s: %v", name, err)
	}
	n.Up(name, "lo")
}

// noDAD are settings of a namespace with which an IPv6 address is there at once, and
// not after the second in which its duplicates are looked for.
var noDAD = []string{"all", "default"}

// add makes a named namespace, and comes back to the one it was called in.
func add(name string) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		return err
	}
	defer home.Close()
	ns, err := netns.NewNamed(name)
	for _, conf := range noDAD {
		if err == nil {
			err = os.WriteFile("/proc/sys/net/ipv6/conf/"+conf+"/accept_dad", []byte("0"), 0)
		}
	}
	if back := netns.Set(home); back != nil {
		return back // the thread stays locked: it is of no use any more
	}
	runtime.UnlockOSThread()
	if ns.IsOpen() {
		ns.Close()
	}
	return err
}

// Delete removes a namespace, if it is still there.
func (n *Net) Delete(name string) {
	if _, err := os.Stat(n.Path(name)); err == nil {
		if err := netns.DeleteNamed(n.Name(name)); err != nil {
			n.t.Errorf("remove namespace %s: %v", name, err)
		}
	}
}

// Handle speaks netlink in a namespace, until the test ends.
func (n *Net) Handle(name string) *netlink.Handle {
	n.t.Helper()
	ns := n.open(name)
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		n.t.Fatalf("netlink in %s: %v", name, err)
	}
	n.t.Cleanup(h.Close)
	return h
}

func (n *Net) open(name string) netns.NsHandle {
	n.t.Helper()
	ns, err := netns.GetFromPath(n.Path(name))
	if err != nil {
		n.t.Fatalf("open namespace %s: %v", name, err)
	}
	return ns
}

// Veth wires two namespaces, which may be one, and sets both ends up, carrier included,
// of which the kernel tells later. Interface numbers can be given (0: any), since pairs
// in different namespaces may have the same.
func (n *Net) Veth(a, ifA, b, ifB string, numbers ...int) {
	n.t.Helper()
	nsA, nsB := n.open(a), n.open(b)
	defer nsA.Close()
	defer nsB.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = ifA
	if len(numbers) > 0 {
		attrs.Index = numbers[0]
	}
	h, err := netlink.NewHandleAt(nsA, unix.NETLINK_ROUTE)
	if err != nil {
		n.t.Fatalf("netlink in %s: %v", a, err)
	}
	defer h.Close()
	v := &netlink.Veth{LinkAttrs: attrs, PeerName: ifB, PeerNamespace: netlink.NsFd(nsB)}
	if err := h.LinkAdd(v); err != nil {
		n.t.Fatalf("make veth %s/%s - %s/%s: %v", a, ifA, b, ifB, err)
	}
	n.Up(a, ifA)
	n.Up(b, ifB)
	n.carrier(a, ifA)
	n.carrier(b, ifB)
}

// carrier waits until the kernel has told the namespace that the link carries, and
// has taken the link-local address into use that it gives the link then.
func (n *Net) carrier(name, link string) {
	n.t.Helper()
	WaitFor(n.t, "carrier of "+name+"/"+link, func() (up bool) {
		n.link(name, link, func(_ *netlink.Handle, l netlink.Link) error {
			up = l.Attrs().OperState == netlink.OperUp
			return nil
		})
		return up
	})
	n.inUse(name, link)
}

// inUse waits until all IPv6 addresses of a link have their local routes: the kernel
// adds them, and tells of it, some time after the address.
func (n *Net) inUse(name, link string) {
	n.t.Helper()
	WaitFor(n.t, "addresses of "+name+"/"+link+" in use", func() (all bool) {
		n.link(name, link, func(h *netlink.Handle, l netlink.Link) error {
			addrs, err := h.AddrList(l, netlink.FAMILY_V6)
			if errors.Is(err, netlink.ErrDumpInterrupted) {
				return nil // something changed meanwhile: look again
			}
			if err != nil {
				return err
			}
			routes, err := h.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Table: unix.RT_TABLE_LOCAL}, netlink.RT_FILTER_TABLE)
			if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
				return err
			}
			all = !slices.ContainsFunc(addrs, func(a netlink.Addr) bool {
				return !slices.ContainsFunc(routes, func(r netlink.Route) bool { return r.Dst != nil && r.Dst.IP.Equal(a.IP) })
			})
			return nil
		})
		return all
	})
}

// AwaitCarrier waits until all veths in the namespaces at these paths carry, as Veth does
// for its own: for networks that others have made.
func AwaitCarrier(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		WaitFor(t, "carrier in "+path, func() bool {
			links, err := linksIn(path)
			if errors.Is(err, netlink.ErrDumpInterrupted) {
				return false
			}
			if err != nil {
				t.Fatal(err)
			}
			return !slices.ContainsFunc(links, func(l netlink.Link) bool {
				return l.Type() == "veth" && l.Attrs().OperState != netlink.OperUp
			})
		})
	}
}

func linksIn(path string) ([]netlink.Link, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.LinkList()
}

// Up sets an interface up.
func (n *Net) Up(name, link string) {
	n.t.Helper()
	n.link(name, link, func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetUp(l) })
}

// Address gives an interface an address such as 10.0.0.1/24. One of IPv6 is in use when
// it returns, if the link is up.
func (n *Net) Address(name, link, cidr string) {
	n.t.Helper()
	addr, err := netlink.ParseAddr(cidr)
	if err != nil {
		n.t.Fatal(err)
	}
	up := false
	n.link(name, link, func(h *netlink.Handle, l netlink.Link) error {
		up = l.Attrs().Flags&net.FlagUp != 0
		return h.AddrAdd(l, addr)
	})
	if up && addr.IP.To4() == nil {
		n.inUse(name, link)
	}
}

// Chain joins the namespaces a, r and b of the net: a e0 - e0 r e1 - e0 b. a is 10.0.1.1, b
// 10.0.2.1, both /24, and r, which is .2 on either side, their router once it forwards.
func (n *Net) Chain() {
	n.t.Helper()
	n.Veth("a", "e0", "r", "e0")
	n.Veth("r", "e1", "b", "e0")
	n.Address("a", "e0", "10.0.1.1/24")
	n.Address("r", "e0", "10.0.1.2/24")
	n.Address("r", "e1", "10.0.2.2/24")
	n.Address("b", "e0", "10.0.2.1/24")
	n.Run("a", "ip", "route", "add", "default", "via", "10.0.1.2")
	n.Run("b", "ip", "route", "add", "default", "via", "10.0.2.2")
}

func (n *Net) link(name, link string, f func(*netlink.Handle, netlink.Link) error) {
	n.t.Helper()
	ns := n.open(name)
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		n.t.Fatalf("netlink in %s: %v", name, err)
	}
	defer h.Close()
	l, err := h.LinkByName(link)
	for errors.Is(err, netlink.ErrDumpInterrupted) { // old kernels list all
		l, err = h.LinkByName(link)
	}
	if err == nil {
		err = f(h, l)
	}
	if err != nil {
		n.t.Fatalf("interface %s/%s: %v", name, link, err)
	}
}

// Index returns an interface's number.
func (n *Net) Index(name, link string) int {
	n.t.Helper()
	index := 0
	n.link(name, link, func(_ *netlink.Handle, l netlink.Link) error {
		index = l.Attrs().Index
		return nil
	})
	return index
}

// Run runs a command in a namespace and returns what it printed. The test fails
// if the command does.
func (n *Net) Run(name string, command ...string) string {
	n.t.Helper()
	out, err := n.Try(name, command...)
	if err != nil {
		n.t.Fatalf("in %s: %s: %v\n%s", name, strings.Join(command, " "), err, out)
	}
	return out
}

// packages are those of Debian whose tools have other names.
var packages = map[string]string{
	"bridge": "iproute2", "ip": "iproute2", "ip6tables-legacy": "iptables", "ip6tables-nft": "iptables",
	"iptables-legacy": "iptables", "iptables-nft": "iptables", "nft": "nftables", "nsenter": "util-linux",
	"ping": "iputils-ping", "sh": "dash", "ss": "iproute2", "sysctl": "procps", "tc": "iproute2", "wg": "wireguard-tools",
}

// Try is Run for commands that may fail. The test needs the command's program.
func (n *Net) Try(name string, command ...string) (string, error) {
	n.t.Helper()
	need.Programs(n.t, "nsenter:util-linux", command[0]+":"+cmp.Or(packages[command[0]], command[0]))
	cmd := exec.Command("nsenter", append([]string{"--net=" + n.Path(name)}, command...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
