// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/e2e/quiet"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
)

// World is the network of one run.
type World struct {
	*nstest.Net
	T    testing.TB
	Mode Mode

	nodes    []string
	attached []string
	inside   []string // not attached, and yet in the domain: "node" or "node/port"
	asking   []string // they have to find their neighbours
	outside  []string // ports of attached nodes whose links show no trace: "node/port"
	addrs    []portAddr
	watchers []observer
	// functions are processes that packets go through.
	functions []int
	taps      []tap // of virtual machines
	sent      []*Sent
	serial    uint32
	salt      uint32 // of the case, for IDs
	handles   map[string]*netlink.Handle
	barrier   *quiet.Barrier
	cpu       int // on which packets are sent
}

type portAddr struct {
	node, port string
	prefix     netip.Prefix
}

// settings are those of a new namespace: nothing is sent that nobody asked for, errors are
// not rationed.
var settings = map[string]string{
	"ipv6/conf/default/accept_dad":           "0",
	"ipv6/conf/all/accept_dad":               "0",
	"ipv6/conf/default/router_solicitations": "0",
	"ipv6/conf/default/accept_ra":            "0",
	"ipv6/conf/default/addr_gen_mode":        "1",
	"ipv4/icmp_ratelimit":                    "0",
	"ipv6/icmp/ratelimit":                    "0",
	"ipv4/icmp_msgs_per_sec":                 "100000",
	"ipv4/icmp_msgs_burst":                   "10000",
	"ipv4/conf/all/rp_filter":                "0",
	"ipv4/conf/default/rp_filter":            "0",
	// Ports have IPv6 when they get an address of it: reports of groups follow timers,
	// and queues would count them.
	"ipv6/conf/default/disable_ipv6": "1",
	// Others have reported before anybody looks, see World.reported.
	"ipv6/conf/default/mldv1_unsolicited_report_interval": "10",
	"ipv6/conf/default/mldv2_unsolicited_report_interval": "10",
}

// Nodes makes namespaces.
func (w *World) Nodes(names ...string) {
	w.T.Helper()
	for _, name := range names {
		w.Add(name)
		w.nodes = append(w.nodes, name)
		for key, value := range settings {
			w.Sysctl(name, key, value)
		}
	}
}

// Sysctl sets net/KEY in a namespace ("ipv4/ip_forward"), if the kernel has it there.
func (w *World) Sysctl(node, key, value string) {
	w.T.Helper()
	w.in(node, func() error {
		path := filepath.Join("/proc/sys/net", key)
		if _, err := os.Stat(path); err != nil {
			return nil // of a kernel that is older, or of the machine as a whole
		}
		return os.WriteFile(path, []byte(value), 0)
	})
}

// Handle speaks netlink in a namespace.
func (w *World) Handle(node string) *netlink.Handle {
	w.T.Helper()
	if w.handles[node] == nil {
		w.handles[node] = w.Net.Handle(node)
	}
	return w.handles[node]
}

// in calls f in a namespace.
func (w *World) in(node string, f func() error) {
	w.T.Helper()
	ns, err := netns.GetFromPath(w.Path(node))
	if err == nil {
		err = host.InNetns(ns, f)
		ns.Close()
	}
	if err != nil {
		w.T.Fatalf("in %s: %v", node, err)
	}
}

// cpuFor is the CPU on which a case sends.
func cpuFor(t testing.TB, name string) int {
	t.Helper()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatalf("CPUs of this thread: %v", err)
	}
	var list []int
	for cpu := 0; len(list) < all.Count(); cpu++ {
		if all.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list[int(hash(name)%uint32(len(list)))]
}

// onCPU calls f on the case's CPU. A packet waits behind all others that were sent from the
// same CPU, and may overtake those that were sent from another.
func (w *World) onCPU(f func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	one.Set(w.cpu)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.SchedSetaffinity(0, &before)) }()
	return f()
}

// send is in for what sends.
func (w *World) send(node string, f func() error) {
	w.T.Helper()
	w.in(node, func() error { return w.onCPU(f) })
}

// Forward makes routers of nodes.
func (w *World) Forward(nodes ...string) {
	w.T.Helper()
	for _, n := range nodes {
		w.Sysctl(n, "ipv4/ip_forward", "1")
		w.Sysctl(n, "ipv6/conf/all/forwarding", "1")
	}
}

// Link wires two nodes by a veth pair whose MAC addresses follow from the names. The
// addresses may be "" or several, parted by spaces.
func (w *World) Link(a, portA, addrA, b, portB, addrB string) {
	w.T.Helper()
	w.Veth(a, portA, b, portB)
	w.fixMAC(a, portA)
	w.fixMAC(b, portB)
	w.Addresses(a, portA, addrA)
	w.Addresses(b, portB, addrB)
}

// mac is the address of a port, from its name.
func mac(node, port string) net.HardwareAddr {
	return binary.BigEndian.AppendUint32(net.HardwareAddr{0x02, 0x72}, hash(node+"/"+port))
}

func hash(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

func (w *World) fixMAC(node, port string) {
	w.T.Helper()
	h := w.Handle(node)
	l, err := h.LinkByName(port)
	if err == nil {
		err = h.LinkSetHardwareAddr(l, mac(node, port))
	}
	if err != nil {
		w.T.Fatalf("MAC of %s/%s: %v", node, port, err)
	}
}

// Device adds an interface with "ip link add NAME ARGS", with a MAC address that
// follows from its name if it has one, and sets it up.
func (w *World) Device(node, name, addrs string, args ...string) {
	w.T.Helper()
	w.Run(node, append([]string{"ip", "link", "add", name}, args...)...)
	h := w.Handle(node)
	l, err := h.LinkByName(name)
	if err != nil {
		w.T.Fatalf("%s/%s: %v", node, name, err)
	}
	// A VLAN has its port's address, and an IFB takes none.
	if len(l.Attrs().HardwareAddr) == 6 && l.Type() != "vlan" && l.Type() != "ifb" {
		w.fixMAC(node, name)
	}
	w.Up(node, name)
	w.Addresses(node, name, addrs)
}

// Addresses gives a port addresses such as "10.0.0.1/24 fd00::1/64".
func (w *World) Addresses(node, port, addrs string) {
	w.T.Helper()
	for _, a := range strings.Fields(addrs) {
		if strings.Contains(a, ":") {
			w.Sysctl(node, "ipv6/conf/"+port+"/disable_ipv6", "0")
		}
		w.Address(node, port, a)
		w.addrs = append(w.addrs, portAddr{node, port, netip.MustParsePrefix(a)})
	}
}

// Route adds a route: "ip route add TO via VIA"; IPv6 if VIA is.
func (w *World) Route(node, to, via string, more ...string) {
	w.T.Helper()
	argv := []string{"ip"}
	if strings.Contains(via, ":") {
		argv = append(argv, "-6")
	}
	w.Run(node, append(append(argv, "route", "add", to, "via", via), more...)...)
}

// Attach names the nodes that radar attaches to.
func (w *World) Attach(nodes ...string) { w.attached = append(w.attached, nodes...) }

// Inside names nodes, or ports ("node/port"), that are not attached and see the
// domain's links, so that their captures are not compared.
func (w *World) Inside(names ...string) { w.inside = append(w.inside, names...) }

// Outside names ports of attached nodes ("node/port") whose captures are compared all the
// same: what is on their links has true headers.
func (w *World) Outside(names ...string) { w.outside = append(w.outside, names...) }

func (w *World) isOutside(node, port string) bool {
	if slices.Contains(w.outside, node+"/"+port) {
		return true
	}
	return !slices.Contains(w.attached, node) && !slices.Contains(w.inside, node) &&
		!slices.Contains(w.inside, node+"/"+port)
}

// neighbours makes ARP and neighbour discovery needless: every address that shares a
// prefix with a port of ours is known there.
func (w *World) neighbours() {
	w.T.Helper()
	for _, at := range w.addrs {
		h := w.Handle(at.node)
		l, err := h.LinkByName(at.port)
		if err != nil {
			w.T.Fatalf("%s/%s: %v", at.node, at.port, err)
		}
		if len(l.Attrs().HardwareAddr) != 6 || slices.Contains(w.asking, at.node) {
			continue
		}
		for _, o := range w.addrs {
			if o == at || o.node == at.node || !at.prefix.Contains(o.prefix.Addr()) {
				continue
			}
			there, err := w.Handle(o.node).LinkByName(o.port)
			if err != nil || len(there.Attrs().HardwareAddr) != 6 {
				continue
			}
			err = h.NeighSet(&netlink.Neigh{
				LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, Family: family(o.prefix.Addr()),
				IP: o.prefix.Addr().AsSlice(), HardwareAddr: there.Attrs().HardwareAddr,
			})
			if err != nil {
				w.T.Fatalf("neighbour %v in %s: %v", o.prefix.Addr(), at.node, err)
			}
		}
	}
}

// reported waits until ports with IPv6 have reported their groups, which they do twice.
func (w *World) reported() {
	if slices.ContainsFunc(w.addrs, func(a portAddr) bool { return a.prefix.Addr().Is6() }) {
		time.Sleep(200 * time.Millisecond)
	}
}

func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// NFT loads rules in a node.
func (w *World) NFT(node, rules string) {
	w.T.Helper()
	cmd := exec.Command("nsenter", "--net="+w.Path(node), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.T.Fatalf("nft in %s: %v\n%s", node, err, out)
	}
}

// ports lists every interface of a node but loopback.
func (w *World) ports(node string) []netlink.Link {
	w.T.Helper()
	links, err := w.Handle(node).LinkList()
	if err != nil {
		w.T.Fatalf("interfaces of %s: %v", node, err)
	}
	return slices.DeleteFunc(links, func(l netlink.Link) bool {
		return l.Attrs().Flags&net.FlagLoopback != 0 || l.Attrs().Flags&net.FlagUp == 0
	})
}
