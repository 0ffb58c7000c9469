// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// Frame is an example that did not come from radar (pkg/intwire/testdata).
type Frame struct {
	Name     string         `json:"name"`
	Hex      string         `json:"hex"`
	Expected map[string]any `json:"expected"`
}

// Frames are all examples.
func Frames(t *testing.T) []Frame {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Root(t), "pkg/intwire/testdata/frames.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []Frame
	if err := json.Unmarshal(b, &all); err != nil || len(all) != 26 {
		t.Fatalf("%d frames, %v", len(all), err)
	}
	return all
}

// FrameBytes is the packet of an example.
func FrameBytes(t *testing.T, name string) []byte {
	t.Helper()
	for _, f := range Frames(t) {
		if f.Name == name {
			b, err := hex.DecodeString(f.Hex)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	t.Fatalf("no frame %q", name)
	return nil
}

// Capture writes packets as a pcap or pcapng file.
func Capture(t *testing.T, ng bool, link layers.LinkType, packets ...[]byte) string {
	t.Helper()
	var b bytes.Buffer
	var write func(gopacket.CaptureInfo, []byte) error
	flush := func() error { return nil }
	if ng {
		w, err := pcapgo.NewNgWriter(&b, link)
		if err != nil {
			t.Fatal(err)
		}
		write, flush = w.WritePacket, w.Flush
	} else {
		w := pcapgo.NewWriterNanos(&b)
		if err := w.WriteFileHeader(65535, link); err != nil {
			t.Fatal(err)
		}
		write = w.WritePacket
	}
	for i, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1795000000+int64(i), 123456789), CaptureLength: len(p), Length: len(p)}
		if err := write(info, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "capture")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ReportPort is where most programs send reports to.
const ReportPort = 32766

// ReportFrames are the shared frames that are reports.
var ReportFrames = []string{
	"tr20-ex-baseline-ipv4", "tr20-ex-embedded-int-md", "tr10-flow-embedded-int10", "tr05-local", "fabric-tna-local-report",
	"p4studio-switch-v2-drop", "intcollector-e2e-p0", "geant-bmv2-report", "onos-basic-int-report", "hostint-report-ipv4",
}

// ReportsFile is a capture file of ReportFrames.
func ReportsFile(t *testing.T) string {
	t.Helper()
	var packets [][]byte
	for _, name := range ReportFrames {
		packets = append(packets, FrameBytes(t, name))
	}
	return Capture(t, false, layers.LinkTypeEthernet, packets...)
}

// CountPackets is how many packets are in a capture file, which may still grow.
func CountPackets(t *testing.T, path string) int {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := collect.OpenCapture(file)
	if err != nil {
		return 0
	}
	for n := 0; ; n++ {
		if _, err := c.NextPacket(); err != nil {
			return n
		}
	}
}
