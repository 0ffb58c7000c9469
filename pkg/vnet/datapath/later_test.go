// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// loaded counts the kernel's programs that use maps of the domain, by name.
func (l *lab) loaded() map[string]int {
	l.t.Helper()
	ours := domain.Kind.Maps(l.domain)
	if len(ours) < len(handleMaps) {
		l.t.Fatalf("the test knows of %d maps only", len(ours))
	}
	count := make(map[string]int)
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			return count
		}
		id = next
		prog, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // another test's, which is gone
		}
		info, err := prog.Info()
		prog.Close()
		if err != nil {
			l.t.Fatal(err)
		}
		used, _ := info.MapIDs()
		if slices.ContainsFunc(used, func(id ebpf.MapID) bool { return slices.Contains(ours, id) }) {
			count[info.Name]++
		}
	}
}

// wantLoaded fails the test unless the domain has so many programs for each way of IPv6 packets.
func (l *lab) wantLoaded(when string, want int) {
	l.t.Helper()
	got := l.loaded()
	if got["radar_ingress4"] != 1 || got["radar_egress4"] != 1 {
		l.t.Errorf("%s: programs for IPv4: %v", when, got)
	}
	if got["radar_ingress6"] != want || got["radar_egress6"] != want {
		l.t.Errorf("%s: want %d programs for IPv6 each way: %v", when, want, got)
	}
}

// addIPv6 gives the chain's nodes IPv6 addresses, and routes to each other.
func (l *lab) addIPv6() {
	l.t.Helper()
	l.Run("r", "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
	for _, c := range []struct{ node, port, addr, far, way string }{
		{"a", "e0", "fd00:1::1/64", "fd00:2::/64", "fd00:1::2"},
		{"r", "e0", "fd00:1::2/64", "", ""},
		{"r", "e1", "fd00:2::2/64", "", ""},
		{"b", "e0", "fd00:2::1/64", "fd00:1::/64", "fd00:2::2"},
	} {
		l.Run(c.node, "ip", "addr", "add", c.addr, "dev", c.port, "nodad")
		if c.far != "" {
			l.Run(c.node, "ip", "route", "add", c.far, "via", c.way)
		}
	}
}

var ttl63 = regexp.MustCompile(`(?m) ttl=63 `)

// ping6 sends so many echoes from a to b, and fails the test unless as many replies come, with the hop limit
// that one router leaves.
func (l *lab) ping6(n int) {
	l.t.Helper()
	out := l.Run("a", "ping", "-c", fmt.Sprint(n), "-i", "0.01", "-W", "60", "fd00:2::1")
	if got := len(ttl63.FindAllString(out, -1)); got != n {
		l.t.Errorf("%d of %d replies, with the right hop limit:\n%s", got, n, out)
	}
}

func (h *Handle) mustCount(t *testing.T, which bpfobj.TcRdrCounter) uint64 {
	t.Helper()
	n, err := h.counter(which)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What --ipv6 says, and which addresses there are, decides whether programs for IPv6 are loaded.
func TestIPv6Loaded(t *testing.T) {
	sideBySide(t)
	for _, c := range []struct {
		mode     string
		want     int
		withAddr int
	}{
		{program.IPv6Auto, 0, 1},
		{program.IPv6Label, 1, 1},
		{program.IPv6Key, 1, 1},
		{program.IPv6Off, 0, 0},
	} {
		t.Run(c.mode, func(t *testing.T) {
			l := newChain(t, program.HookAuto)
			l.opts.IPv6 = c.mode
			held := c.mode == program.IPv6Auto
			if r := l.attach(chain...); r.IPv6Held != held {
				t.Errorf("--ipv6 %s: held is %t", c.mode, r.IPv6Held)
			}
			l.wantLoaded("--ipv6 "+c.mode, c.want)
			h := l.open()
			l.addIPv6()
			l.ping6(1)
			if missed, err := h.MissesIPv6(); missed != held || err != nil {
				t.Errorf("--ipv6 %s: packets are missed: %t, %v", c.mode, missed, err)
			}
			if err := h.LoadIPv6(); err != nil {
				t.Errorf("--ipv6 %s: %v", c.mode, err)
			}
			l.wantLoaded("--ipv6 "+c.mode+", later", c.withAddr)
			h.Close()
			l.detachAll()
			if r := l.attach(chain...); r.IPv6Held {
				t.Errorf("--ipv6 %s, with addresses: held", c.mode)
			}
			l.wantLoaded("--ipv6 "+c.mode+", with addresses", c.withAddr)
		})
	}
}

// Packets that come before the programs for IPv6 are counted by name, one by one, and those after are
// measured. What neighbours tell each other is neither: it does not ask for the programs.
func TestIPv6Held(t *testing.T) {
	const echoes = 20
	for _, how := range []string{program.HookTCX, program.HookClsact} {
		l := newChain(t, how)
		l.attach(chain...)
		h := l.open()
		if out, err := l.Try("a", "ping", "-q", "-c", "1", "-W", "1", "ff02::4714%e0"); err == nil {
			t.Fatalf("a group without members answers: %s", out)
		}
		if missed, err := h.MissesIPv6(); missed || err != nil {
			t.Errorf("%s: neighbour discovery and groups ask for the programs: %v", how, err)
		}
		l.addIPv6()
		l.ping6(echoes)
		l.wantCounted(h, how+", before", 2*echoes, 0)

		// Both programs are there, but a process was killed before it said so.
		if err := h.LoadIPv6(); err != nil {
			t.Fatal(err)
		}
		atomic.StoreUint64(h.ipv6Held(), 1)
		l.ping6(echoes)
		l.wantCounted(h, how+", half-way", 4*echoes, 0)

		other := l.open()
		if err := other.LoadIPv6(); err != nil {
			t.Fatal(err)
		}
		l.wantLoaded(how, 1)
		l.ping6(echoes)
		l.wantCounted(h, how+", after", 4*echoes, 2*echoes)
		if got := h.mustCount(t, bpfobj.TcRdrCounterRDR_C_NM_MULTICAST); got != 1 {
			t.Errorf("%s: %d packets for groups, ping has sent one", how, got)
		}
		if h.mustCount(t, bpfobj.TcRdrCounterRDR_C_NM_NEIGHBOUR) == 0 {
			t.Errorf("%s: no packet of neighbours was counted", how)
		}
	}
}

// wantCounted wants so many packets not to be measured for want of the programs, and so many to be.
func (l *lab) wantCounted(h *Handle, when string, missed, marked uint64) {
	l.t.Helper()
	if got := h.mustCount(l.t, bpfobj.TcRdrCounterRDR_C_NM_IPV6); got != missed {
		l.t.Errorf("%s: %d packets not measured, ping has sent %d", when, got, missed)
	}
	if got := h.mustCount(l.t, bpfobj.TcRdrCounterRDR_C_MARKED); got != marked {
		l.t.Errorf("%s: %d packets measured, ping has sent %d", when, got, marked)
	}
}

// Trains that come before the programs are counted by their segments, as the kernel counts them.
func TestIPv6HeldTrains(t *testing.T) {
	l := newChain(t, program.HookAuto)
	l.attach(chain...)
	h := l.open()
	l.addIPv6()
	l.ping6(1) // TCP sends segments for which no neighbour is known, and they may be dropped before they come to a port
	was, before := l.segments("a")+l.segments("b"), h.mustCount(t, bpfobj.TcRdrCounterRDR_C_NM_IPV6)
	l.stream6(1 << 20)
	var sent, missed uint64
	nstest.WaitFor(t, "as many packets not measured as TCP has sent", func() bool {
		sent, missed = l.segments("a")+l.segments("b")-was, h.mustCount(t, bpfobj.TcRdrCounterRDR_C_NM_IPV6)-before
		t.Logf("%d segments sent, %d not measured", sent, missed)
		return sent == missed
	})
	if sent < 1<<20/1500 {
		t.Errorf("%d segments sent", sent)
	}
}

// stream6 sends so many bytes from a to b by TCP.
func (l *lab) stream6(n int) {
	l.t.Helper()
	specs := l.specs("a", "b")
	to := &net.TCPAddr{IP: net.ParseIP("fd00:2::1"), Port: 4714}
	var server *net.TCPListener
	var client *net.TCPConn
	err := specs[1].Do(func() (err error) {
		server, err = net.ListenTCP("tcp6", to)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	defer server.Close()
	err = specs[0].Do(func() (err error) {
		client, err = net.DialTCP("tcp6", nil, to)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	go func() {
		_, _ = client.Write(make([]byte, n))
		client.Close()
	}()
	conn, err := server.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.Copy(io.Discard, conn); err != nil || got != int64(n) {
		l.t.Fatalf("%d of %d bytes have come: %v", got, n, err)
	}
}

// segments is how many segments the node's TCP has sent.
func (l *lab) segments(node string) (n uint64) {
	l.t.Helper()
	var names []string
	for line := range strings.Lines(l.Run(node, "cat", "/proc/net/snmp")) {
		f := strings.Fields(line)
		switch {
		case f[0] != "Tcp:":
		case names == nil:
			names = f
		default:
			for i, name := range names {
				if name == "OutSegs" || name == "RetransSegs" {
					value, err := strconv.ParseUint(f[i], 10, 64)
					if err != nil {
						l.t.Fatal(err)
					}
					n += value
				}
			}
		}
	}
	return n
}

// A node that joins with an address brings the programs.
func TestIPv6Joins(t *testing.T) {
	l := newChain(t, program.HookAuto)
	l.attach("a", "r")
	l.wantLoaded("before", 0)
	l.Run("b", "ip", "addr", "add", "fd00:2::1/64", "dev", "e0") // its duplicates are looked for
	if r := l.attach("b"); r.IPv6Held {
		t.Error("held")
	}
	l.wantLoaded("after", 1)
}
