// SPDX-License-Identifier: Apache-2.0

package int

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/p4/recorded"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

// testP4: frames that the P4 program has sent on a real BMv2 (p4/testdata) pass eBPF nodes as they
// passed P4 ones. A P4 source, an eBPF transit and an eBPF sink; an eBPF source beside the P4 one.
func testP4(t *testing.T, n *nstest.Net) {
	m, err := recorded.Read("../../../p4/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []string{"r1", "r2", "r3"} {
		for _, i := range []string{"all", "e0", "e1"} {
			n.Run(r, "sysctl", "-qw", "net.ipv4.conf."+i+".rp_filter=0")
		}
	}
	for _, name := range []string{
		"md, IPv4", "md, IPv6", "md10, IPv4", "md10, IPv6", "mx, IPv4", "mx, IPv6", "md, all instructions",
		"md, queue only", "md, marked by port", "mx, marked by port", "md, one hop may add", "md10, one hop may add",
	} {
		t.Run(name, func(t *testing.T) {
			c := m.Case(name)
			if c == nil {
				t.Fatal("it was not recorded")
			}
			var ebpf *chain // one for all frames, which have the same settings
			for i, j := range c.Journeys() {
				if j.Marked == nil || j.Grown == nil || j.Arrived == nil {
					continue
				}
				if ebpf == nil {
					ebpf = newChain(t, n, asP4(t, j))
				}
				checkP4(t, ebpf, fmt.Sprintf("frame %d", i), j)
			}
			if ebpf == nil {
				t.Error("no frame passed all switches")
			}
		})
	}
}

// asP4 are settings of eBPF nodes under which they do what the P4 ones did to this frame.
func asP4(t *testing.T, j recorded.Journey) settings {
	t.Helper()
	marked, _ := decode(j.Marked)
	sent, _ := decode(j.Sent)
	set := settings{vars: map[string]any{}}
	body := marked.payload
	if marked.proto == 17 && (sent.proto != 17 || marked.dport != sent.dport) {
		set.vars["cfg_dscp_mask"], set.vars["cfg_port"] = uint8(0), marked.dport
		body = marked.l4[8:]
	}
	first, what := binary.BigEndian.Uint32(body[4:]), binary.BigEndian.Uint32(body[8:])
	set.entry = bpfobj.IntEntry{Instructions: uint16(what >> 16), Domain: uint16(what), Remaining: uint8(first) + 1, Words: uint8(first >> 8 & 0x1f)}
	switch {
	case body[0]>>4 == 3:
		set.entry.Mode = uint8(bpfobj.INT_MODE_MX)
	case first>>28 == 1:
		set.entry.Mode = uint8(bpfobj.INT_MODE_MD10)
	default:
		set.entry.Mode = uint8(bpfobj.INT_MODE_MD)
	}
	return set
}

// headerOf is how long shim and header are of the INT in a payload.
func headerOf(b []byte) int {
	if b[4]>>4 == 1 {
		return 12
	}
	return 16
}

func checkP4(t *testing.T, c *chain, name string, j recorded.Journey) {
	t.Helper()
	c.frames()
	sent, _ := decode(j.Sent)
	to := net.IP(sent.dst).String()
	for i, r := range []string{"r1", "r2", "r3"} {
		via := fmt.Sprintf("10.0.%d.2", i+1)
		if sent.v6 {
			via = fmt.Sprintf("fd00:%d::2", i+1)
		}
		c.Run(r, "ip", "route", "replace", to, "via", via)
	}

	// From the P4 source to an eBPF transit.
	c.link(j.Marked, "r1", "e1", "r2", "e0")
	one, _ := decode(await(t, c.link2, 1)[0])
	end, _ := decode(await(t, c.got, 1)[0])
	was, _ := decode(j.Grown)
	if wrong := one.wrong(); wrong != "" {
		t.Errorf("%s: behind the transit %s is wrong", name, wrong)
	}
	a, b := one.l4[8:], was.l4[8:]
	if one.proto == 6 {
		a, b = one.payload, was.payload
	}
	head := headerOf(b)
	if len(one.ip) != len(was.ip) || one.dscp != was.dscp || !bytes.Equal(a[:head], b[:head]) {
		t.Errorf("%s: behind the eBPF transit\n% x\nbehind the P4 one\n% x", name, one.ip, was.ip)
	}
	if each := int(b[6]&0x1f) * 4; b[0]>>4 != 3 { // all but the transit's own words
		sameBytes(t, name+": words of others, and payload", a[head+each:], b[head+each:])
	}
	sameButTTL(t, name+": behind the sink", end, sent)

	// From an eBPF source, beside the P4 one.
	c.frames()
	c.link(j.Sent, "h1", "e0", "r1", "e0")
	mine, _ := decode(await(t, c.link1, 1)[0])
	theirs, _ := decode(j.Marked)
	if wrong := mine.wrong(); wrong != "" {
		t.Errorf("%s: behind the source %s is wrong", name, wrong)
	}
	a, b = mine.l4[8:], theirs.l4[8:]
	if mine.proto == 6 {
		a, b = mine.payload, theirs.payload
	}
	if mine.proto != theirs.proto || mine.dscp != theirs.dscp || len(mine.ip) != len(theirs.ip) || !bytes.Equal(a[:head], b[:head]) {
		t.Errorf("%s: behind the eBPF source\n% x\nbehind the P4 one\n% x", name, mine.ip, theirs.ip)
	}
	end, _ = decode(await(t, c.got, 1)[0])
	sameButTTL(t, name+": from end to end", end, sent)
}

// link sends a frame from one port to the other one of its link, past TC.
func (c *chain) link(frame []byte, node, port, peer, peerPort string) {
	c.t.Helper()
	f := append([]byte(nil), frame...)
	for i, at := range [][2]string{{peer, peerPort}, {node, port}} {
		l, err := c.Handle(at[0]).LinkByName(at[1])
		if err != nil {
			c.t.Fatal(err)
		}
		copy(f[i*6:], l.Attrs().HardwareAddr)
	}
	inNetns(c.t, c.Path(node), func() error { return nstest.SendFrameBypassing(port, f) })
}

// sameButTTL compares all of two packets but the TTL, and IPv4's checksum.
func sameButTTL(t *testing.T, what string, got, want decoded) {
	t.Helper()
	a, b := append([]byte(nil), got.ip...), append([]byte(nil), want.ip...)
	for _, p := range [][]byte{a, b} {
		if got.v6 {
			p[7] = 0
		} else {
			p[8], p[10], p[11] = 0, 0, 0
		}
	}
	sameBytes(t, what, a, b)
	if wrong := got.wrong(); wrong != "" && want.wrong() == "" {
		t.Errorf("%s: %s is wrong", what, wrong)
	}
}
