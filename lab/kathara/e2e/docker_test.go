// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/record"
)

// Ports in the containers and outside.
const (
	portA     = 7000 // of a, b and c for each other and for the host
	portPub   = 7100 // of b, published by the host under portHost
	portHost  = 17100
	portOut   = 7200 // outside, taken
	portAsk   = 7201 // outside, where requests to b come from
	portNone  = 7300 // outside, not taken
	portTCP   = 7400 // of b, published under portHost
	portLocal = 17500
)

// dockerWorld is a Docker host: containers a, b and c on docker0, of which radar
// gets a and b, and a machine outside that the host routes to.
//
//	a, b (attached), c --- docker0, the host --- outside
type dockerWorld struct {
	t                   *testing.T
	engine              *dockertest.Engine
	a, b, c             *place
	host, gate, outside *place // gate is the host under its address on docker0
	proxy               bool   // containers reach published ports by docker-proxy
}

func newDockerWorld(t *testing.T) *dockerWorld {
	w := &dockerWorld{t: t, engine: engine(t)}
	w.wireOutside()
	publish := []string{
		"--publish", fmt.Sprintf("%s:%d:%d/udp", w.host.addr, portHost, portPub),
		"--publish", fmt.Sprintf("%s:%d:%d/tcp", w.host.addr, portHost, portTCP),
	}
	w.a = w.container("a")
	w.b = w.container("b", publish...)
	w.c = w.container("c")
	// With its proxy the engine leaves what comes from containers out of NAT.
	w.proxy = strings.Contains(w.host.run("iptables", "-w", "-t", "nat", "-S", "DOCKER"), "! -i docker0 -p udp")
	t.Logf("published ports of the host from containers by docker-proxy: %v", w.proxy)
	w.gate = newPlace(t, "host", w.host.path, w.host.linkAddr("docker0"))
	for _, p := range []*place{w.a, w.b, w.c} {
		p.sink(portA)
	}
	w.b.sink(portPub)
	w.host.sink(portLocal)
	w.outside.sink(portOut, portAsk)
	w.outside.run("sysctl", "-q", "-w", "net.ipv4.icmp_ratelimit=0")
	return w
}

// wireOutside makes a namespace that the host reaches over a veth of its own.
func (w *dockerWorld) wireOutside() {
	n := nstest.New(w.t, "out")
	// Of 100.64.0.0/10, which no network of Docker's is in; others may test here, too.
	net := [4]byte{100, 64 + byte(rand.IntN(64)), byte(rand.IntN(256)), byte(rand.IntN(64) * 4)}
	here, there := net, net
	here[3]++
	there[3] += 2
	w.host = newPlace(w.t, "host", "/proc/self/ns/net", netip.AddrFrom4(here))
	w.outside = newPlace(w.t, "outside", n.Path("out"), netip.AddrFrom4(there))
	link := n.Name("o")
	w.t.Cleanup(func() { _ = w.host.command("ip", "link", "delete", link).Run() }) // goes with the namespace, too
	w.host.run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", n.Name("out"))
	w.host.run("ip", "address", "add", w.host.addr.String()+"/30", "dev", link)
	w.host.run("ip", "link", "set", link, "up")
	// What leaves this way is captured as single frames with full checksums.
	w.host.run("ethtool", "-K", link, "tx", "off", "tso", "off", "gso", "off")
	w.outside.run("ip", "address", "add", w.outside.addr.String()+"/30", "dev", "eth0")
	w.outside.run("ip", "link", "set", "eth0", "up")
	w.outside.run("ip", "route", "add", "default", "via", w.host.addr.String())
	w.outside.run("ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off")
}

func (w *dockerWorld) container(name string, flags ...string) *place {
	w.t.Helper()
	c := w.engine.Run(name, flags...)
	return newPlace(w.t, c.Name, fmt.Sprintf("/proc/%d/ns/net", c.PID()), netip.MustParseAddr(c.Address()))
}

func at(p *place, port int) netip.AddrPort { return netip.AddrPortFrom(p.addr, uint16(port)) }

// flows are all ways that a packet can go here.
func (w *dockerWorld) flows() []*flow {
	a, b, c, host, gate, out := w.a, w.b, w.c, w.host, w.gate, w.outside
	list := []*flow{
		{name: "a to b", from: a, to: at(b, portA), at: "b",
			state: record.Delivered, path: []string{a.name, b.name}},
		{name: "b to a", from: b, to: at(a, portA), at: "a",
			state: record.Delivered, path: []string{b.name, a.name}},
		{name: "a to c, which is not attached", from: a, to: at(c, portA), at: "c",
			state: record.Left, path: []string{a.name, "host"}},
		{name: "c to a", from: c, to: at(a, portA), at: "a",
			state: record.Delivered, path: []string{"host", a.name}},
		{name: "a to the host", from: a, to: at(gate, portLocal), at: "host",
			state: record.Delivered, path: []string{a.name, "host"}},
		{name: "the host to a", from: gate, to: at(a, portA), at: "a",
			state: record.Delivered, path: []string{"host", a.name}},
		{name: "a to outside, masqueraded", from: a, to: at(out, portOut), at: "outside", routers: 1,
			state: record.Left, path: []string{a.name, "host"}},
		{name: "c to outside, masqueraded", from: c, to: at(out, portOut), at: "outside", routers: 1},
		{name: "outside to b's published port", from: out, to: at(host, portHost), at: "b", routers: 1, dst: at(b, portPub),
			before: 1, recDst: at(b, portPub), state: record.Delivered, path: []string{"host", b.name}},
		{name: "b's published port to outside", from: b, at: "outside", routers: 1, src: at(host, portHost),
			state: record.Left, path: []string{b.name, "host"}},
		{name: "a to b's published port, by a proxy in the host", from: a, to: at(host, portHost), at: "host",
			state: record.Delivered, path: []string{a.name, "host"}},
	}
	if !w.proxy { // the bridge itself turns it round
		list[len(list)-1] = &flow{name: "a to b's published port, by NAT on the bridge", from: a, to: at(host, portHost),
			at: "b", dst: at(b, portPub), state: record.Delivered, path: []string{a.name, b.name}, linkNAT: true}
	}
	for i, f := range list {
		f.number, f.sport = uint8(i+1), 20001+i
		if strings.HasSuffix(f.name, "masqueraded") {
			f.src = at(host, f.sport)
		}
	}
	// The answer has the request's ports.
	request, answer := list[8], list[9]
	request.sport, answer.sport, answer.to = portAsk, portPub, at(out, portAsk)
	return list
}

// round sends every flow and holds what arrives to what was sent.
func (w *dockerWorld) round(t *testing.T) []*flow {
	t.Helper()
	observers := map[string]observer{
		"a":       w.a.listen(unix.IPPROTO_UDP),
		"b":       w.b.listen(unix.IPPROTO_UDP),
		"host":    w.host.listen(unix.IPPROTO_UDP),
		"c":       w.c.capture("eth0", "udp"),
		"outside": w.outside.capture("eth0", "udp and not src host "+w.outside.addr.String()), // tcpdump -Q would count what is sent as received
	}
	quotes := w.a.listen(unix.IPPROTO_ICMP)
	flows := w.flows()
	for _, f := range flows {
		f.send(t)
	}
	refused := &flow{name: "refused", number: 100, from: w.a, to: at(w.outside, portNone), sport: 20100}
	refused.send(t)
	w.awaitProxied(observers["b"].(*rawSocket), flows)
	carried(t)
	seen := map[string][]packet{}
	for name, o := range observers {
		list, err := o.stop()
		if err != nil {
			t.Fatal(err)
		}
		seen[name] = list
	}
	for _, f := range flows {
		f.checkSeen(t, seen[f.at])
	}
	if w.proxy {
		w.checkProxied(t, flows[len(flows)-1], seen["b"])
	}
	list, err := quotes.stop()
	if err != nil {
		t.Fatal(err)
	}
	checkQuotes(t, refused, list)
	return flows
}

// awaitProxied waits until b has what is sent to it: docker-proxy may have to wait for a CPU.
func (w *dockerWorld) awaitProxied(b *rawSocket, flows []*flow) {
	want := 0
	for _, f := range flows {
		if f.at == "b" {
			want += flowCount
		}
	}
	if w.proxy {
		want += flowCount
	}
	for end := time.Now().Add(nstest.Patience); int(b.got.Load()) < want && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}

// checkProxied looks at the packets that docker-proxy, a process of the host,
// makes of those that it gets: an ordinary socket's, with a checksum that a device
// would finish.
func (w *dockerWorld) checkProxied(t *testing.T, f *flow, seen []packet) {
	t.Helper()
	ids := &idRun{}
	n := 0
	for _, p := range seen {
		if k, ok := p.key(); !ok || k.flow != f.number {
			continue
		}
		n++
		if p.ttl() != 64 || p.tos() != 0 || p.src() != w.gate.addr {
			t.Errorf("%s: b sees TTL %d, TOS %#x from %s", f.name, p.ttl(), p.tos(), p.src())
		}
		if err := p.checkSums(false); err != nil {
			t.Errorf("%s: b sees a %v", f.name, err)
		}
		ids.add(p.id(), 1)
	}
	if n != len(f.sent) {
		t.Errorf("%s: b sees %d of %d packets", f.name, n, len(f.sent))
	}
	if err := ids.check(); err != nil {
		t.Errorf("%s, at b: %v", f.name, err)
	}
}

// checkQuotes looks at the packets of a flow that ICMP errors bring back.
func checkQuotes(t *testing.T, f *flow, seen []packet) {
	t.Helper()
	n := 0
	for _, p := range seen {
		icmp := p.body()
		if len(icmp) < 8+28+payloadHead || icmp[0] != 3 || icmp[1] != 3 {
			continue
		}
		quote := packet(icmp[8:]) // cut off behind 548 bytes
		k, ok := quote.key()
		if !ok || k.flow != f.number {
			continue
		}
		n++
		want := f.sent[k]
		if quote.ttl() != want.ttl()-1 || quote.id() != want.id() || quote.tos() != want.tos() || quote.from() != want.from() {
			t.Errorf("%s, packet %d: quoted as % x, sent as % x", f.name, k.seq, quote[:28], want[:28])
		}
		if sum(0, quote[:20]) != 0xffff {
			t.Errorf("%s, packet %d: the quote's IP checksum is wrong", f.name, k.seq)
		}
	}
	if n == 0 { // the kernel limits their rate
		t.Errorf("%s: no ICMP error came back", f.name)
	}
}

// Containers on docker0, by their names. Every packet that leaves the two attached
// ones, toward a third, the host, its published port and the outside, is what it
// is without radar, and radar knows the way of each.
func TestDocker(t *testing.T) {
	w := newDockerWorld(t)
	if !t.Run("without radar", func(t *testing.T) { w.round(t) }) {
		t.FailNow() // the test itself is wrong
	}
	r := attach(t, "docker:"+w.a.name, "docker:"+w.b.name, "--timeout", packetTimeout)
	t.Run("attached", func(t *testing.T) {
		flows := w.round(t)
		r.settle(t)
		all := r.records(t)
		for _, f := range flows {
			if f.path != nil {
				f.checkRecords(t, all)
			}
		}
		if w.proxy {
			w.checkProxyRecords(t, flows[len(flows)-1], all)
		}
	})
	t.Run("tcp", func(t *testing.T) { w.tcpRound(t, r) })
	r.run(t, "detach")
	t.Run("detached", func(t *testing.T) { w.round(t) })
}

// checkProxyRecords looks for the records of what docker-proxy sent: as many as it
// got, on the path from the host to b.
func (w *dockerWorld) checkProxyRecords(t *testing.T, f *flow, all []record.Record) {
	t.Helper()
	n := 0
	for _, r := range all {
		if r.Src != w.gate.addr.String() || r.Dst != w.b.addr.String() || r.Dport == nil || *r.Dport != portPub {
			continue
		}
		n++
		if path := strings.Join(nodesOf(r), " "); r.State != record.Delivered || path != "host "+w.b.name || r.TTL != 64 {
			t.Errorf("%s, the proxy's packet: record says %s by %s, TTL %d", f.name, r.State, path, r.TTL)
		}
	}
	if n != len(f.sent) {
		t.Errorf("%s: %d records of the proxy's packets, %d packets", f.name, n, len(f.sent))
	}
}
