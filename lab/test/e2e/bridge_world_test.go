// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

/*
 * What a machine with containers looks like: a bridge in the host's namespace (which
 * is one of the test's own here), two containers that radar attaches, one that it does
 * not, and a way out behind NAT.
 *
 *	a 10.9.0.2 --- va \
 *	b 10.9.0.3 --- vb  br0 10.9.0.1 (host) wan 192.0.2.1 --- 192.0.2.2 w
 *	u 10.9.0.4 --- vu /
 */
type bridged struct {
	*nstest.Net
	t *testing.T
	*radar
	namespaces []string
}

const (
	addrHost = "10.9.0.1"
	addrA    = "10.9.0.2"
	addrB    = "10.9.0.3"
	addrU    = "10.9.0.4"
	addrWAN  = "192.0.2.1"
	addrW    = "192.0.2.2"
)

// hostRules: the way out is behind NAT, iperf3's port is published and leads to a,
// from outside and from containers (hairpin); what goes from br0 back to br0 needs the
// host's address.
const hostRules = `table ip nat {
	chain in  {
		type nat hook prerouting priority -100
		ip daddr ` + addrWAN + ` tcp dport 5201 dnat to ` + addrA + `
	}
	chain out {
		type nat hook postrouting priority 100
		oifname "wan" masquerade
		ct status dnat ip saddr 10.9.0.0/24 masquerade
	}
}`

// redirectRules: a proxy in a container takes a port over.
const redirectRules = `table ip nat {
	chain in { type nat hook prerouting priority -100; tcp dport 5202 redirect to :5201; }
}`

func newBridged(t *testing.T, brNetfilter bool) *bridged {
	t.Helper()
	needNetwork(t)
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	b := &bridged{Net: nstest.New(t), t: t}
	for _, name := range []string{"host", "a", "b", "u", "w"} {
		b.addNode(name)
	}
	b.radar = &radar{ctx: lifetime(t), bin: radarbin.Path(t), domain: uniqueName()}
	b.Run("host", "ip", "link", "add", "br0", "type", "bridge")
	b.Up("host", "br0")
	b.Address("host", "br0", addrHost+"/24")
	for _, c := range []struct{ name, addr string }{{"a", addrA}, {"b", addrB}, {"u", addrU}} {
		b.container(c.name, c.addr)
	}
	b.Veth("host", "wan", "w", "eth0")
	b.Address("host", "wan", addrWAN+"/24")
	b.Address("w", "eth0", addrW+"/24")
	b.Run("host", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	call := "0"
	if brNetfilter {
		call = "1"
	}
	b.Run("host", "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables="+call)
	b.nft("host", hostRules)
	b.nft("b", redirectRules)
	nstest.Cleanup(t, func() {
		b.ctx = context.Background()
		b.try("detach", "--no-drain")
	})
	return b
}

func (b *bridged) addNode(name string) {
	b.t.Helper()
	b.Add(name)
	b.namespaces = append(b.namespaces, b.Path(name))
}

// carried waits until no packet is in flight.
func (b *bridged) carried() { b.t.Helper(); carried(b.t, b.namespaces) }

// container hangs a namespace on the bridge, as Docker does.
func (b *bridged) container(name, addr string) {
	b.t.Helper()
	b.Veth(name, "eth0", "host", "v"+name)
	b.Address(name, "eth0", addr+"/24")
	b.Run(name, "ip", "route", "add", "default", "via", addrHost)
	b.Run("host", "ip", "link", "set", "v"+name, "master", "br0")
}

// attach attaches nodes in the background.
func (b *bridged) attach(nodes ...string) { b.t.Helper(); b.attachWith(nil, nodes...) }

func (b *bridged) attachWith(flags []string, nodes ...string) {
	b.t.Helper()
	args := append([]string{"attach", "-d", "--slots", "64K"}, flags...)
	for _, n := range nodes {
		args = append(args, b.Spec(n))
	}
	b.run(b.t, args...)
}

func (b *bridged) nft(node, rules string) {
	b.t.Helper()
	cmd := exec.Command("nsenter", "--net="+b.Path(node), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("nft in %s: %v\n%s", node, err, out)
	}
}

// listen starts tcpdump on an interface, or at the netfilter hooks if it is "nflog".
func (b *bridged) listen(node, port string) *tcpdump {
	b.t.Helper()
	d := &tcpdump{node: node, file: filepath.Join(b.t.TempDir(), node+"."+port+".pcap"), ended: make(chan struct{})}
	argv := []string{"--net=" + b.Path(node), "tcpdump", "-n", "-U", "-s", "0", "-Z", "root", "-w", d.file}
	if port == "nflog" {
		b.nft(node, hookRules)
		d.hook = true
		argv = append(argv, "-i", fmt.Sprintf("nflog:%d", nflogGroup), "-B", "65536") // at most: nothing is set aside
	} else {
		argv = append(argv, "-i", port, "-B", "16384") // no expression, see startDump
	}
	d.cmd = exec.Command("nsenter", argv...)
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		b.t.Fatalf("start tcpdump in %s: %v", node, err)
	}
	go d.follow(stderr)
	nstest.Cleanup(b.t, func() { // does nothing to one that has ended
		d.cmd.Process.Kill()
		<-d.ended
		d.cmd.Wait()
	})
	if err := d.ready(); err != nil {
		b.t.Fatalf("tcpdump in %s: %v\n%s", node, err, d.log())
	}
	return d
}

// seenPacket is an IPv4 packet as a capture has it.
type seenPacket struct {
	ip   *layers.IPv4
	sent bool // seen at the output hook
}

// packets ends the capture and reads it. Sums of headers are checked.
func (d *tcpdump) packets(t *testing.T) (list []seenPacket) {
	t.Helper()
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(d.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, _, err := r.ReadPacketData()
		if err != nil {
			return list
		}
		sent := false
		if d.hook {
			data, sent = nflogPacket(data)
		} else {
			data = data[14:]
		}
		ip := &layers.IPv4{}
		if err := ip.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
			continue // not IPv4
		}
		if sum := headerSum(data[:ip.IHL*4]); sum != 0xffff {
			t.Errorf("%s: wrong header checksum: %x", filepath.Base(d.file), data[:20])
		}
		list = append(list, seenPacket{ip, sent})
	}
}

// nflogPacket takes the packet out of an nflog record; see linux/nfnetlink_log.h.
func nflogPacket(b []byte) (ip []byte, sent bool) {
	for b = b[4:]; len(b) >= 4; {
		n, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if n < 4 || n > len(b) {
			return nil, false
		}
		switch kind {
		case 1: // packet header: protocol, hook
			sent = b[6] == 3
		case 9:
			ip = b[4:n]
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return ip, sent
}

func headerSum(b []byte) (sum uint32) {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return sum
}

// content is what no router changes of a packet, and its ID: who sent it knows.
func content(ip *layers.IPv4) string {
	var payload []byte
	// NAT changes what errors quote. Pings begin with the time.
	if ip.Protocol == layers.IPProtocolICMPv4 && quoteOf(ip) == nil && len(ip.Payload) >= 24 {
		payload = ip.Payload[8:24]
	}
	return fmt.Sprintf("%v id %d %x", ip.Protocol, ip.Id, payload)
}

// wantTrue demands that every packet of a capture is one that somebody sent, with its
// ID, and with the TTL of a sender or what routers left of it: those of GUIDs are 72
// and more. Fragments are made behind the hook; those behind the first say no more.
func wantTrue(t *testing.T, where string, seen []seenPacket, sent map[string]bool) {
	t.Helper()
	if len(seen) == 0 {
		t.Errorf("%s: nothing was captured", where)
	}
	wrong := 0
	for _, p := range seen {
		if p.ip.TTL > 64 {
			t.Errorf("%s: TTL %d: %v > %v %v", where, p.ip.TTL, p.ip.SrcIP, p.ip.DstIP, content(p.ip))
			wrong++
		}
		if c := content(p.ip); !sent[c] && p.ip.FragOffset == 0 {
			t.Errorf("%s: nobody sent %v > %v %s", where, p.ip.SrcIP, p.ip.DstIP, c)
			wrong++
		}
		if quoted := quoteOf(p.ip); quoted != nil && (quoted.TTL > 64 || !bytes.Contains([]byte(sentIDs(sent)), fmt.Appendf(nil, "id %d ", quoted.Id))) {
			t.Errorf("%s: an ICMP error quotes id %d ttl %d", where, quoted.Id, quoted.TTL)
		}
		if wrong > 5 {
			t.Fatalf("%s: and more", where)
		}
	}
}

func sentIDs(sent map[string]bool) string {
	var all strings.Builder
	for c := range sent {
		all.WriteString(c + "\n")
	}
	return all.String()
}

// quoteOf is the header that an ICMP error quotes, nil if it is none.
func quoteOf(ip *layers.IPv4) *layers.IPv4 {
	if ip.Protocol != layers.IPProtocolICMPv4 || ip.FragOffset != 0 || len(ip.Payload) < 28 ||
		(ip.Payload[0] != 3 && ip.Payload[0] != 11) {
		return nil
	}
	quoted := &layers.IPv4{}
	if quoted.DecodeFromBytes(ip.Payload[8:], gopacket.NilDecodeFeedback) != nil && quoted.Version != 4 {
		return nil
	}
	return quoted
}
