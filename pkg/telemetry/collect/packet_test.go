// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/need"
)

// TestAppendUDP: tcpdump finds right lengths and checksums in packets made of datagrams.
func TestAppendUDP(t *testing.T) {
	var file bytes.Buffer
	w := pcapgo.NewWriterNanos(&file)
	if err := w.WriteFileHeader(1<<16, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, pair := range [][2]string{{"10.0.0.1:9", "10.255.255.255:32766"}, {"[2001:db8::1]:65535", "[::]:1"}, {"[::ffff:10.0.0.1]:7", "[::ffff:1.2.3.4]:8"}} {
		for _, size := range []int{0, 1, 2, 255, 1472, 9001} {
			payload := bytes.Repeat([]byte{0xff, 0x5a, 0xfe}, size/3+1)[:size]
			b, err := AppendUDP([]byte("before"), netip.MustParseAddrPort(pair[0]), netip.MustParseAddrPort(pair[1]), payload)
			if err != nil {
				t.Fatal(err)
			}
			b = b[len("before"):]
			if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: noon, CaptureLength: len(b), Length: len(b)}, b); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	need.Programs(t, "tcpdump")
	path := filepath.Join(t.TempDir(), "made.pcap")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tcpdump", "-n", "-vv", "-r", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if ok := strings.Count(string(out), "udp sum ok"); ok != n || strings.Contains(string(out), "bad") {
		t.Errorf("%d of %d checksums are right:\n%s", ok, n, out)
	}
	if _, err := AppendUDP(nil, netip.MustParseAddrPort("1.1.1.1:1"), netip.MustParseAddrPort("1.1.1.1:1"), make([]byte, 65536)); err == nil {
		t.Error("a datagram of 65536 bytes was taken")
	}
}

// TestPacketUDP: the payload of what AppendUDP makes is found again, behind IPv4 options and IPv6
// extension headers too, and never a part of one.
func TestPacketUDP(t *testing.T) {
	make := func(src, dst string) []byte {
		b, err := AppendUDP(nil, netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst), []byte("report"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	v4, v6 := make("10.0.0.1:9", "10.0.0.2:32766"), make("[::1]:9", "[::2]:32766")
	changed := func(b []byte, change func(b []byte) []byte) []byte { return change(bytes.Clone(b)) }
	for _, c := range []struct {
		what string
		ip   []byte
		want error
	}{
		{"IPv4", v4, nil},
		{"IPv6", v6, nil},
		{"padding", append(bytes.Clone(v4), 0, 0, 0), nil},
		{"IPv4 options", changed(v4, func(b []byte) []byte { b[0]++; return slices.Insert(b, 20, 1, 1, 1, 0) }), nil},
		{"IPv6 options", changed(v6, func(b []byte) []byte {
			b[6] = 60
			return slices.Insert(b, 40, 17, 0, 1, 4, 0, 0, 0, 0)
		}), nil},
		{"first fragment", changed(v4, func(b []byte) []byte { b[6] |= 0x20; return b }), ErrPart},
		{"last fragment", changed(v4, func(b []byte) []byte { b[7] = 1; return b }), ErrPart},
		{"IPv6 fragment", changed(v6, func(b []byte) []byte {
			b[6] = 44
			return slices.Insert(b, 40, 17, 0, 0, 0, 0, 0, 0, 1)
		}), ErrPart},
		{"cut payload", v4[:len(v4)-1], ErrPart},
		{"cut header", v6[:44], ErrPart},
		{"UDP length 7", changed(v4, func(b []byte) []byte { b[25] = 7; return b }), ErrPart},
		{"IHL 16", changed(v4, func(b []byte) []byte { b[0] = 0x44; return b }), ErrPart},
		{"TCP", changed(v4, func(b []byte) []byte { b[9] = 6; return b }), ErrNoUDP},
		{"IPv6 options cut", changed(v6, func(b []byte) []byte { b[6] = 60; return b[:44] }), ErrNoUDP},
		{"nothing", nil, ErrNoUDP},
	} {
		port, payload, err := Packet{IP: c.ip}.UDP()
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if err == nil && (port != 32766 || string(payload) != "report") {
			t.Errorf("%s: %q to port %d", c.what, payload, port)
		}
	}
}
