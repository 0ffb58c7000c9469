// SPDX-License-Identifier: Apache-2.0

package main

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

	"github.com/vnetradar/radar/pkg/collect"
)

// intFrame is an example that did not come from radar (pkg/intwire/testdata).
type intFrame struct {
	Name     string         `json:"name"`
	Hex      string         `json:"hex"`
	Expected map[string]any `json:"expected"`
}

func intFrames(t *testing.T) []intFrame {
	t.Helper()
	b, err := os.ReadFile("../../pkg/intwire/testdata/frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []intFrame
	if err := json.Unmarshal(b, &all); err != nil || len(all) != 26 {
		t.Fatalf("%d frames, %v", len(all), err)
	}
	return all
}

func intBytes(t *testing.T, name string) []byte {
	t.Helper()
	for _, f := range intFrames(t) {
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

// capture writes packets as a pcap or pcapng file.
func capture(t *testing.T, ng bool, link layers.LinkType, packets ...[]byte) string {
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

// reportFrames are the shared frames that are reports.
var reportFrames = []string{
	"tr20-ex-baseline-ipv4", "tr20-ex-embedded-int-md", "tr10-flow-embedded-int10", "tr05-local", "fabric-tna-local-report",
	"p4studio-switch-v2-drop", "intcollector-e2e-p0", "geant-bmv2-report", "onos-basic-int-report", "hostint-report-ipv4",
}

func reportsFile(t *testing.T) string {
	t.Helper()
	var packets [][]byte
	for _, name := range reportFrames {
		packets = append(packets, intBytes(t, name))
	}
	return capture(t, false, layers.LinkTypeEthernet, packets...)
}

// countPackets is how many packets are in a capture file, which may still grow.
func countPackets(t *testing.T, path string) int {
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
