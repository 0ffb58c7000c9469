// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"
)

// sentLog is what one sender handed to the kernel.
type sentLog struct {
	packetLog
	node string
}

// rawFlow is traffic whose every header bit is ours: random IDs, TTLs inside
// and outside the bands that radar writes, any DSCP and ECN.
type rawFlow struct {
	from, to     string
	sport, dport int
	proto        layers.IPProtocol // UDP, or any other without ports
	count        int
	gap          time.Duration // between packets
	sizes        []int         // IP bytes, in turn
	ttls         []uint8       // in turn; nil: mixedTTLs
	options      bool          // with 8 bytes of IP options
	mayFragment  bool          // DF clear
}

// mixedTTLs lie inside radar's default bands (65-96, 129-224), at their borders
// and outside of them; none runs out in these labs.
var mixedTTLs = []uint8{64, 80, 255, 65, 96, 97, 128, 129, 150, 224, 225, 20, 72, 200}

// mixedSizes from the smallest that holds a probe to a full frame.
var mixedSizes = []int{36, 64, 128, 300, 576, 1000, 1400, 1500}

// payloadSeq is where a payload holds its sequence number (4 bytes).
const payloadSeq = 4

// payload of packet seq: a mark, the sequence number, random bytes.
func payload(rnd *rand.Rand, seq, size int) []byte {
	b := make([]byte, max(size, payloadSeq+4))
	copy(b, "rdr!")
	binary.BigEndian.PutUint32(b[payloadSeq:], uint32(seq))
	for i := payloadSeq + 4; i < len(b); i++ {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// packet number seq of the flow, complete with checksums.
func (f *rawFlow) packet(rnd *rand.Rand, src, dst netip.Addr, seq int) ([]byte, error) {
	ttls := f.ttls
	if ttls == nil {
		ttls = mixedTTLs
	}
	ip := &layers.IPv4{
		Version: 4, TTL: ttls[seq%len(ttls)], TOS: uint8(rnd.Uint32()),
		Id:    uint16(seq*40503 + f.sport), // a permutation: no ID comes twice within 2^16
		Flags: layers.IPv4DontFragment, Protocol: f.proto, SrcIP: src.AsSlice(), DstIP: dst.AsSlice(),
	}
	if ip.Id == 0 { // the kernel would choose one
		ip.Id = uint16(f.dport)
	}
	if f.mayFragment {
		ip.Flags = 0
	}
	head := 20
	if f.options {
		for range 7 {
			ip.Options = append(ip.Options, layers.IPv4Option{OptionType: 1}) // no operation
		}
		ip.Options = append(ip.Options, layers.IPv4Option{OptionType: 0}) // end
		head += 8
	}
	parts := []gopacket.SerializableLayer{ip}
	if f.proto == layers.IPProtocolUDP {
		u := &layers.UDP{SrcPort: layers.UDPPort(f.sport), DstPort: layers.UDPPort(f.dport)}
		if err := u.SetNetworkLayerForChecksum(ip); err != nil {
			return nil, err
		}
		parts = append(parts, u)
		head += 8
	}
	parts = append(parts, gopacket.Payload(payload(rnd, seq, f.sizes[seq%len(f.sizes)]-head)))
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, parts...); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// sendRaw sends the flow and returns what was sent.
func (n *network) sendRaw(t *testing.T, f rawFlow) *sentLog {
	t.Helper()
	if f.proto == 0 {
		f.proto = layers.IPProtocolUDP
	}
	src, dst := n.addr(t, f.from), n.addr(t, f.to)
	fd := n.openRaw(t, f.from, unix.AF_INET, unix.IPPROTO_RAW)
	defer unix.Close(fd)
	rnd := rand.New(rand.NewPCG(uint64(f.sport), uint64(f.dport)))
	sent := &sentLog{node: f.from}
	next := time.Now()
	for seq := range f.count {
		b, err := f.packet(rnd, src, dst, seq)
		if err != nil {
			t.Fatalf("build packet: %v", err)
		}
		waitUntil(next)
		next = next.Add(f.gap)
		sent.add(time.Now(), b)
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Addr: dst.As4()}); err != nil {
			t.Fatalf("send from %s: %v", f.from, err)
		}
	}
	if err := sent.finish(); err != nil {
		t.Fatalf("keep what was sent: %v", err)
	}
	return sent
}

// waitUntil sleeps; timers of this kind of machine are about 60 us late, so a
// flow makes up for it by sending what is due.
func waitUntil(at time.Time) {
	if d := time.Until(at); d > 0 {
		time.Sleep(d)
	}
}

// openRaw opens a raw socket in a node: of IPPROTO_RAW for packets with their own IP header.
// The caller closes it.
func (n *network) openRaw(t *testing.T, node string, family, proto int) int {
	t.Helper()
	var fd int
	err := n.within(node, func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, proto)
		return err
	})
	if err != nil {
		t.Fatalf("open raw socket in %s: %v", node, err)
	}
	return fd
}

// receiveRaw opens a raw socket in a node for what comes there. Receiving gives up after
// patience, for a look at whether to go on. The caller closes it.
func (n *network) receiveRaw(t *testing.T, node string, proto int, patience time.Duration) int {
	t.Helper()
	fd := n.openRaw(t, node, unix.AF_INET, proto)
	timeout := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		t.Fatalf("set socket timeout: %v", err)
	}
	// For what comes while this process has no CPU.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 128<<20); err != nil {
		t.Fatalf("set socket buffer: %v", err)
	}
	return fd
}

// udpFlow is traffic of an ordinary UDP socket.
type udpFlow struct {
	from, to     string
	sport, dport int
	count        int
	gap          time.Duration
	sizes        []int // payload bytes, in turn
	connected    bool  // unconnected sockets send every packet with IP ID 0
	fragments    bool  // DF clear: the kernel fragments what is too long
	train        int   // not 0: the kernel sends trains of datagrams of this size
	dontFragment bool  // DF set also in trains, where it is clear by default
	six          bool  // IPv6, whose senders cut what does not fit
}

func (n *network) sendUDP(t *testing.T, f udpFlow) {
	t.Helper()
	var src, dst unix.Sockaddr = &unix.SockaddrInet4{Port: f.sport}, &unix.SockaddrInet4{Addr: n.addr(t, f.to).As4(), Port: f.dport}
	family := unix.AF_INET
	if f.six {
		src, dst = &unix.SockaddrInet6{Port: f.sport}, &unix.SockaddrInet6{Addr: n.addr6(t, f.to).As16(), Port: f.dport}
		family = unix.AF_INET6
	}
	var fd int
	err := n.within(f.from, func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.Bind(fd, src); err != nil {
			return fmt.Errorf("bind port %d: %w", f.sport, err)
		}
		switch {
		case f.fragments:
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
		case f.dontFragment:
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		}
		if err == nil && f.train > 0 {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, f.train)
		}
		if err == nil && f.connected {
			err = unix.Connect(fd, dst)
		}
		return err
	})
	if err != nil {
		t.Fatalf("open UDP socket in %s: %v", f.from, err)
	}
	defer unix.Close(fd)
	rnd := rand.New(rand.NewPCG(uint64(f.sport), uint64(f.dport)))
	next := time.Now()
	for seq := range f.count {
		b := payload(rnd, seq, f.sizes[seq%len(f.sizes)])
		waitUntil(next)
		next = next.Add(f.gap)
		if f.connected {
			_, err = unix.Write(fd, b)
		} else {
			err = unix.Sendto(fd, b, 0, dst)
		}
		if err != nil {
			t.Fatalf("send from %s: %v", f.from, err)
		}
	}
}
