// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
)

// bridged is a link out - far with a bridge in it, in a namespace of its own.
type bridged struct {
	*domain
	out  int // interface index
	send int // socket of out
	recv int // socket of far
}

func (d *domain) newBridged(t *testing.T) *bridged {
	t.Helper()
	home, err := vnetns.Get()
	d.must("this namespace", err)
	ns, err := vnetns.New()
	d.must("new namespace", err)
	t.Cleanup(func() {
		d.must("back", vnetns.Set(home))
		_ = ns.Close()
		_ = home.Close()
	})
	br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	br.Name = "br"
	d.must("bridge", netlink.LinkAdd(br))
	b := &bridged{domain: d}
	add := func(name, member string) int {
		dev := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: member}
		dev.Name, dev.NumTxQueues, dev.NumRxQueues = name, 4, 4
		d.must("add", netlink.LinkAdd(dev))
		port, err := netlink.LinkByName(member)
		d.must(member, err)
		d.must("member", netlink.LinkSetMaster(port, br))
		for _, l := range []netlink.Link{dev, port} {
			// Else the kernel sends packets of its own.
			d.must("no link-local address", netlink.LinkSetIP6AddrGenMode(l, nl.IN6_ADDR_GEN_MODE_NONE))
			d.must("up", netlink.LinkSetUp(l))
		}
		return dev.Attrs().Index
	}
	b.out = add("out", "in")
	far := add("far", "to-far")
	d.must("no link-local address", netlink.LinkSetIP6AddrGenMode(br, nl.IN6_ADDR_GEN_MODE_NONE))
	d.must("up", netlink.LinkSetUp(br))
	b.send, b.recv = b.socket(b.out), b.socket(far)
	b.await(packet(t, "icmp-echo"))
	return b
}

// await sends a frame until it comes out of the bridge, whose members forward only once the
// kernel has seen that they are up.
func (b *bridged) await(probe []byte) {
	b.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := unix.Write(b.send, probe); err != nil {
			b.Fatal(err)
		}
		if n, _, err := unix.Recvfrom(b.recv, make([]byte, 2000), unix.MSG_DONTWAIT); err == nil && n == len(probe) {
			return
		}
	}
	b.Fatal("the bridge forwards nothing")
}

// receive returns the next frame with that one's length and payload: neither what the bridge
// says to its neighbours, nor what await has sent.
func (b *bridged) receive(data []byte) []byte {
	b.Helper()
	got := make([]byte, len(data)+1)
	for {
		n, err := unix.Read(b.recv, got)
		if err != nil {
			b.Fatalf("nothing came out of the bridge: %v", err)
		}
		if n == len(data) && bytes.Equal(got[etherHeader+20:n], data[etherHeader+20:]) {
			return got[:n]
		}
	}
}

// socket sends and receives the IPv4 frames of an interface.
func (b *bridged) socket(index int) int {
	b.Helper()
	proto := binary.NativeEndian.Uint16([]byte{0x08, 0x00})
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(proto))
	b.must("socket", err)
	b.Cleanup(func() { _ = unix.Close(fd) })
	b.must("bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: proto, Ifindex: index}))
	b.must("timeout", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}))
	return fd
}

func (b *bridged) run(args ...string) {
	b.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// carry sends a frame and returns it as it comes out of the bridge.
func (b *bridged) carry(data []byte) []byte {
	b.Helper()
	if _, err := unix.Write(b.send, data); err != nil {
		b.Fatal(err)
	}
	return b.receive(data)
}

// TestSumsOfKernel: a bridge's rule or its queue changes a header, and the kernel spells the
// checksum of zero that comes of it 0xffff: on the wire, or where the true header would have
// had it. The packet is known again and arrives byte for byte as without radar.
func TestSumsOfKernel(t *testing.T) {
	need.Programs(t, "nft:nftables", "tc:iproute2")
	rule := func(text string) func(b *bridged) {
		return func(b *bridged) {
			b.run("nft", "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; add rule bridge t c "+text)
		}
	}
	for _, c := range []struct {
		name  string
		setUp func(b *bridged)
		takes uint16 // from the checksum
		queue bool
	}{
		{"nft ip dscp set", rule("ip dscp set ef"), 46 << 2, false},
		{"nft ip ecn set", rule("ip ecn set ce"), 1, false},
		{"a queue sets CE", func(b *bridged) {
			args := []string{"qdisc", "add", "dev", "to-far", "root", "netem", "loss", "100%", "ecn"}
			if out, err := exec.Command("tc", args...).CombinedOutput(); strings.Contains(string(out), "kind is unknown") {
				need.Lack(b.TB, need.Kernel, "sch_netem")
			} else if err != nil {
				b.Fatalf("tc: %v\n%s", err, out)
			}
		}, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t, config{})
			b := d.newBridged(t)
			c.setUp(b)
			pos := d.nextPos()
			at := func(k int) uint32 { return uint32(pos+uint64(k)) & (d.layout.Slots - 1) }
			var packets, want [][]byte
			for _, sums := range [][2]uint16{
				{c.takes, 77}, // wire, truth
				{77, c.takes},
				{c.takes, c.takes},
				{77, 99},
			} {
				p := packet(t, "udp-64")
				setBits(t, p, 0, 64, 2)
				d.wireSum(p, at(len(packets)), sums[0], sums[1])
				packets, want = append(packets, p), append(want, b.carry(p))
			}
			switch sum := binary.BigEndian.Uint16(want[1][etherHeader+10:]); {
			case sum == 0 && c.queue:
				need.Lack(t, need.Kernel, "a queue that spells zero 0xffff (Linux 5.11)")
			case sum != 0xffff:
				t.Fatalf("the kernel spells zero %#x", sum)
			}
			d.attach(b.out, h1Out)
			for k, p := range packets {
				wire := b.carry(p)
				if index := d.guid(wire); index != at(k) {
					t.Fatalf("packet %d has slot %d, not %d: its sum is not what the test wants", k, index, at(k))
				}
				if sum := binary.BigEndian.Uint16(wire[etherHeader+10:]); (sum == 0xffff) != (k%2 == 0) {
					t.Errorf("packet %d: sum %#x on the wire", k, sum)
				}
				same(t, "at h2", d.ingress(h2In, frame{data: wire}).data, want[k])
				d.wantStory(at(k), "out@0/FS deliver@3/F")
			}
		})
	}
}
