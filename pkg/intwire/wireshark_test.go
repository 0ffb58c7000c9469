// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	switches "github.com/vnetradar/radar/p4/recorded"
)

// The Wireshark plugin (p4/wireshark) shares no code with this package. These tests hold both to each other: of every
// packet tshark shows the same fields, with the same values, and the same anomalies.

// writeCapture writes packets by hand, so that the file shares nothing with radar's own writer.
func writeCapture(t *testing.T, link uint32, packets [][]byte) string {
	t.Helper()
	wire := make([]int, len(packets))
	for i, p := range packets {
		wire[i] = len(p)
	}
	return writeCut(t, link, packets, wire)
}

// writeCut is writeCapture, of packets that had more bytes on the wire.
func writeCut(t *testing.T, link uint32, packets [][]byte, wire []int) string {
	t.Helper()
	var b bytes.Buffer
	for _, v := range []uint32{0xa1b2c3d4, 2 | 4<<16, 0, 0, 1 << 18, link} {
		_ = binary.Write(&b, binary.LittleEndian, v)
	}
	for i, p := range packets {
		for _, v := range []int{i, 0, len(p), wire[i]} {
			_ = binary.Write(&b, binary.LittleEndian, uint32(v))
		}
		b.Write(p)
	}
	path := filepath.Join(t.TempDir(), "packets.pcap")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// named is a packet of a test.
type named struct {
	name string
	data []byte
}

// further: tshark may show more INT than the decoder.
var further bool

// hold compares what tshark shows of packets with what a decoder says.
func hold(t *testing.T, d *Decoder, start Start, link uint32, packets []named, args ...string) {
	t.Helper()
	all := make([][]byte, len(packets))
	for i := range packets {
		all[i] = packets[i].data
	}
	holdTrees(t, d, start, packets, tshark(t, writeCapture(t, link, all), args...))
}

// holdTrees is hold, of what tshark has shown already.
func holdTrees(t *testing.T, d *Decoder, start Start, packets []named, trees []item) {
	t.Helper()
	if len(trees) != len(packets) {
		t.Fatalf("%d of %d packets", len(trees), len(packets))
	}
	var m Message
	for i := range packets {
		d.Decode(&m, start, packets[i].data)
		want, codes := decoded(t, &m)
		got := read(&trees[i])
		if d.Profile != nil { // the decoder says it of all other packets, too, and of no marker
			codes = slices.DeleteFunc(codes, func(c string) bool { return c == NotTheProfile.String() && !got.codes[c] })
			delete(got.facts, "probe_marker")
		}
		if further && (got.topLevel > len(m.INT) && !m.HasGroup && m.Report.Layout == NoReport) {
			continue
		}
		list := differ(want, got.facts)
		if have := slices.Sorted(maps.Keys(got.codes)); !slices.Equal(have, codes) {
			list = append(list, fmt.Sprintf("anomalies: tshark shows %q, decoded are %q", have, codes))
		}
		if len(list) > 0 {
			t.Errorf("%s (%x):\n  %s", packets[i].name, packets[i].data, strings.Join(list, "\n  "))
		}
	}
}

// recorded are all packets of Ethernet that the tree has: from specifications and programs, written by hand, exported, and
// those of them in which bytes are wrong.
func recorded(t *testing.T) (packets []named) {
	t.Helper()
	for _, f := range frames(t) {
		packets = append(packets, named{f.Name, f.data})
	}
	for _, c := range malformed(t) {
		packets = append(packets, named{c.name, c.frame})
	}
	for _, c := range foreign {
		if b := c.ethernet(t); b != nil {
			packets = append(packets, named{c.name, b})
		}
	}
	packets = append(packets, named{"six hops", wrap(sixHops(t), 32766)})
	return packets
}

// ethernet is the case as a frame of Ethernet; nil: it is of another link.
func (c *foreignCase) ethernet(t testing.TB) []byte {
	t.Helper()
	b := c.bytes(t)
	switch c.at {
	case "ethernet":
		return b
	case "ip":
		return slices.Concat([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}, b)
	case "udp":
		frame := wrap(nil, 0)
		binary.BigEndian.PutUint16(frame[16:], uint16(20+len(b)))
		return append(frame[:34], b...)
	case "report":
		return wrap(b, 32766)
	}
	return nil
}

func TestWireshark(t *testing.T) {
	hold(t, &Decoder{}, StartEthernet, 1, recorded(t))
}

// Packets of other links than Ethernet.
func TestWiresharkLinks(t *testing.T) {
	var ip, cooked []named
	for _, c := range foreign {
		switch c.at {
		case "ip":
			ip = append(ip, named{c.name, c.bytes(t)})
		case "cooked":
			cooked = append(cooked, named{c.name, c.bytes(t)})
		}
	}
	hold(t, &Decoder{}, StartIP, 101, ip)
	hold(t, &Decoder{}, StartCooked, 113, cooked)
}

// All capture files in the tree.
func TestWiresharkCaptures(t *testing.T) {
	files, packets := 0, []named(nil)
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "bin" || e.Name() == ".git" || e.Name() == ".cache"):
			return fs.SkipDir
		case filepath.Ext(path) != ".pcap":
			return nil
		}
		files++
		packets = append(packets, readCapture(t, path)...)
		return nil
	})
	if err != nil || files < 6 {
		t.Errorf("%d files, %v", files, err)
	}
	hold(t, &Decoder{}, StartEthernet, 1, packets)
}

// What P4 switches have sent, on every link and of every kind.
func TestWiresharkSwitches(t *testing.T) {
	m, err := switches.Read("../../p4/testdata")
	if err != nil {
		t.Fatal(err)
	}
	var packets []named
	for _, c := range m.Cases {
		for _, link := range switches.Links {
			for i, p := range c.Packets[link] {
				packets = append(packets, named{fmt.Sprintf("%s, link %s, packet %d", c.File, link, i+1), p.Data})
			}
		}
	}
	if len(packets) < 500 {
		t.Errorf("%d packets", len(packets))
	}
	hold(t, &Decoder{}, StartEthernet, 1, packets)
}

// readCapture reads a pcap file of Ethernet, little endian.
func readCapture(t *testing.T, path string) (packets []named) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 24 || binary.LittleEndian.Uint32(b[20:]) != 1 {
		t.Fatalf("%s: not of Ethernet", path)
	}
	for b = b[24:]; len(b) >= 16; {
		n := binary.LittleEndian.Uint32(b[8:])
		packets = append(packets, named{fmt.Sprintf("%s, packet %d", filepath.Base(path), len(packets)+1), b[16 : 16+n]})
		b = b[16+n:]
	}
	return packets
}

// Every source that the preferences name reads as the profile of that name does.
func TestWiresharkProfiles(t *testing.T) {
	if need.IsCheck(t) {
		t.Skip("takes long: make test runs it")
	}
	packets := recorded(t)
	for i := range Profiles {
		p := &Profiles[i]
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			hold(t, &Decoder{Profile: p}, StartEthernet, 1, packets, "-o", "int.source:"+p.Name)
		})
	}
}
