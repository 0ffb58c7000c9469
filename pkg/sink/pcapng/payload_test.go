// SPDX-License-Identifier: Apache-2.0

package pcapng_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/sink/pcapng"
)

// withPayload writes a packet h1 > h2 with payload at h1's port, and shows the fields of each frame.
func withPayload(t *testing.T, r *record.Record, p pcapng.Payload, fields ...string) (string, pcapng.Stats) {
	t.Helper()
	var b bytes.Buffer
	w, err := pcapng.New(&b, pcapng.Options{PayloadAt: func(node, _ string) bool { return node == "h1" || node == "h2" }})
	if err != nil {
		t.Fatal(err)
	}
	p.Node, p.Port, p.Out = "h1", "e0", true
	if err := w.Add(r, []pcapng.Payload{p}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return tshark(t, file, fields...), w.Stats()
}

// two is a packet from h1 to h2 of so many IP bytes.
func two(proto string, version, length int) *record.Record {
	r := &record.Record{
		ID: "1-1", State: record.Delivered, IPVersion: version, Proto: proto, Src: "10.0.0.1", Dst: "10.0.0.2", Len: length, Segs: 1, TTL: 64, IPID: 7,
		Sport: ptr(4000), Dport: ptr(9), Hops: []record.Hop{{Node: "h1", Port: "e0"}, {Node: "h2", InPort: "e0"}},
	}
	if version == 6 {
		r.Src, r.Dst = "2001:db8::1", "2001:db8::2"
	}
	return r
}

// Payload stands behind the header that the record has, with the right checksum where all of it is there. The port without
// has what it had before.
func TestPayload(t *testing.T) {
	header := []byte{0x0f, 0xa0, 0, 9, 0, 13, 0xde, 0xad} // the checksum is one that a device is to finish
	whole := pcapng.Payload{Data: append(header, "hello"...), Header: 8, Length: 13}
	part := pcapng.Payload{Data: append(header, "hell"...), Header: 8, Length: 13}
	tcp := append(append([]byte{0x0f, 0xa0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0x18, 1, 0, 0xbe, 0xef, 0, 0}, make([]byte, 12)...), "hello"...)
	segment := two("tcp", 4, 20+32+5)
	segment.TCPSeq, segment.TCPAck, segment.TCPFlags, segment.TCPWindow, segment.TCPPayload = ptr(1), ptr(2), ptr(0x18), ptr(256), ptr(5)
	for _, c := range []struct {
		name  string
		r     *record.Record
		p     pcapng.Payload
		frame string // length, captured, the checksum (1: good, 3: none), payload
		next  string // captured of the frame without
	}{
		{"UDP", two("udp", 4, 33), whole, "33 33 1 68656c6c6f", "28"},
		{"UDP, a part", two("udp", 4, 33), part, "33 32 3 68656c6c", "28"},
		{"UDP over IPv6", two("udp", 6, 53), whole, "53 53 1 68656c6c6f", "46"},
		{"TCP", segment, pcapng.Payload{Data: tcp, Header: 32, Length: 37}, "57 57 1 68656c6c6f", "52"},
	} {
		got, stats := withPayload(t, c.r, c.p, "frame.len", "frame.cap_len", "udp.checksum.status", "tcp.checksum.status", "udp.payload", "tcp.payload")
		frames := strings.Split(strings.TrimSpace(got), "\n")
		if len(frames) != 2 {
			t.Fatalf("%s: %q", c.name, got)
		}
		first, next := strings.Split(frames[0], "\t"), strings.Split(frames[1], "\t")
		if text := first[0] + " " + first[1] + " " + first[2] + first[3] + " " + first[4] + first[5]; text != c.frame {
			t.Errorf("%s: %q, want %q", c.name, text, c.frame)
		}
		if next[1] != c.next || stats.Payload != 1 || stats.NoPayload != 1 {
			t.Errorf("%s: the other frame has %s bytes, want %s; %+v", c.name, next[1], c.next, stats)
		}
	}
}

// Packets whose headers are forged are written as far as that goes.
func TestForgedPayload(t *testing.T) {
	for length := range 80 {
		for _, proto := range []string{"tcp", "udp", "icmp", "sctp", "gre"} {
			r := two(proto, 4, length)
			r.TCPSeq, r.TCPPayload = ptr(1), ptr(1)
			for size := range 30 {
				for header := range size + 2 {
					p := pcapng.Payload{Data: make([]byte, size), Header: header, Length: size, Node: "h1", Port: "e0", Out: true}
					w, err := pcapng.New(io.Discard, pcapng.Options{})
					if err != nil {
						t.Fatal(err)
					}
					if err := w.Add(r, []pcapng.Payload{p}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// A writer holds 64 MiB of frames at most, whatever their payload is, and no buffers of payload once they are written.
func TestPayloadMemory(t *testing.T) {
	const size, most = 16384, 64 << 20
	var written counter
	w, err := pcapng.New(&written, pcapng.Options{})
	if err != nil {
		t.Fatal(err)
	}
	added := 0
	p := pcapng.Payload{Data: make([]byte, size), Header: 8, Length: size, Node: "h1", Port: "e0", Out: true}
	for range 3 * most / 2 / size {
		if err := w.Add(two("udp", 4, 20+size), []pcapng.Payload{p}); err != nil {
			t.Fatal(err)
		}
		if added += size; added-int(written) > most {
			t.Fatalf("%d bytes of payload added, %d bytes written", added, written)
		}
	}
	if written == 0 || w.Stats().Late > 0 {
		t.Errorf("%d bytes written, %+v", written, w.Stats())
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > most/2 {
		t.Errorf("%d bytes in use after all has been written", m.HeapAlloc)
	}
	runtime.KeepAlive(w)
}

// counter counts what is written.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
