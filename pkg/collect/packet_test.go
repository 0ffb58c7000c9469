// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
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
