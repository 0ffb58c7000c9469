// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// Reports with two hops whose latencies are 200 and 100: whole, and with E, I, the quote cut.
const (
	sentWhole = "2040000200000003141100200000000000000000455c003c00010000401166520a0000010a0000029c401f90002800001007000020000200a00000000000000000000002000000c80000000100000064"
	sentE     = "2040000200000003141100200000000000000000455c003c00010000401166520a0000010a0000029c401f90002800001007000024000200a00000000000000000000002000000c80000000100000064"
)

// sentFile is a capture of datagrams to the port of reports from 10.9.0.3.
func sentFile(t *testing.T, payloads ...string) string {
	t.Helper()
	var packets [][]byte
	for _, text := range payloads {
		payload, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		ip, err := collect.AppendUDP(nil, netip.MustParseAddrPort("10.9.0.3:1"), netip.MustParseAddrPort("10.9.9.9:32766"), payload)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, ip)
	}
	return clitest.Capture(t, false, layers.LinkTypeRaw, packets...)
}

// TestCollectIncomplete: of a stack to which a node could not add, paths and packets say so, and no event
// tells a path or a latency of the flow.
func TestCollectIncomplete(t *testing.T) {
	for _, c := range []struct {
		payload string
		partial bool
	}{{sentWhole, false}, {sentE, true}} {
		t.Setenv("RADAR_STATE_DIR", t.TempDir())
		events, stderr, code := clitest.Radar(t, "collect", "--all", "--show", "events", "-r", sentFile(t, c.payload))
		if code != kit.ExitOK || strings.Contains(events, "flow_") == c.partial || !strings.Contains(events, "hop_latency") {
			t.Errorf("partial %v: code %d, %s%s", c.partial, code, stderr, events)
		}
		for _, command := range []string{"paths", "packets"} {
			stdout, stderr, code := clitest.Radar(t, command)
			if code != kit.ExitOK || !strings.Contains(stdout, "int-1 > int-2") || strings.Contains(stdout, "int-2 ... (incomplete)") != c.partial {
				t.Errorf("%s, partial %v: code %d, %s%s", command, c.partial, code, stderr, stdout)
			}
		}
	}
}

// TestCollectUnits: the unit of a source's latencies, from the command line and a file, where a comma
// cuts lists; what was kept is read with it.
func TestCollectUnits(t *testing.T) {
	file := sentFile(t, sentWhole)
	for _, c := range []struct {
		source, want string
	}{
		{"", "300ns"},
		{"10.9.0.3=auto,latency=us", "300us"},
		{"10.9.0.9=geant,10.9.0.3=spec-2.1,latency=ms", "300ms"},
		{"10.9.0.3=spec-2.1,10.9.0.9=auto,latency=us", "300ns"},
	} {
		t.Setenv("RADAR_STATE_DIR", t.TempDir())
		args := []string{"collect", "--all", "-r", file}
		if c.source != "" {
			args = append(args, "--source", c.source)
		}
		if _, stderr, code := clitest.Radar(t, args...); code != kit.ExitOK {
			t.Errorf("%s: code %d, %s", c.source, code, stderr)
		}
		for _, command := range []string{"int metrics --metric flow_latency", "paths"} {
			if stdout, stderr, _ := clitest.Radar(t, strings.Fields(command)...); !strings.Contains(stdout, " "+c.want) {
				t.Errorf("%s: %s: %s%s", c.source, command, stdout, stderr)
			}
		}
	}
	for source, want := range map[string]string{
		"10.9.0.3=geant,latency=s":      `"latency=s": use latency=ns, latency=us or latency=ms`,
		"latency=us":                    "use ADDRESS=PROFILE",
		"10.9.0.3=geant,clock=own":      `"clock=own": use clock=shared`,
		"10.9.0.3=auto,time=us,time=us": "time is said twice",
		"10.9.0.3=auto,time=":           `"time=": use time=ns`,
		"10.9.0.3=,latency=us":          `unknown profile ""`,
	} {
		if _, stderr, code := clitest.Radar(t, "collect", "-r", file, "--source", source); code != kit.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s", source, code, stderr)
		}
	}
}

// TestCollectNoise: what has not the form of a report is counted as none.
func TestCollectNoise(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	sflow := "00000005000000010a00000100000000000000070000000100000000"
	_, stderr, code := clitest.Radar(t, "collect", "-r", sentFile(t, sflow, sentWhole))
	if code != kit.ExitOK || !strings.Contains(stderr, "2 datagrams, 1 of them no report; 1 report,") {
		t.Errorf("code %d, %s", code, stderr)
	}
	stdout, _, _ := clitest.Radar(t, "int", "decode", "--starts-at", "udp", "0001 7ffe 0000 0000 "+sflow)
	if !strings.Contains(stdout, "taken for a report by its port") {
		t.Errorf("decode: %s", stdout)
	}
}

// TestCollectThreshold: a share with a least value, and the one that latencies have by default.
func TestCollectThreshold(t *testing.T) {
	more := strings.Replace(sentWhole, "000000c8", "000003e8", 1) // 1,000 in place of 200
	file := sentFile(t, sentWhole, more)
	for thresholds, events := range map[string]int{
		"": 4, "hop_latency=10%,1us": 4, "hop_latency=10%,700ns": 5, "all=10%": 6, "hop_latency=10%,700ns,flow_latency=0": 6,
	} {
		t.Setenv("RADAR_STATE_DIR", t.TempDir())
		args := []string{"collect", "-r", file, "--show", "events", "-o", "json"}
		if thresholds != "" {
			args = append(args, "--threshold", thresholds)
		}
		stdout, stderr, code := clitest.Radar(t, args...)
		if n := strings.Count(stdout, "\n"); code != kit.ExitOK || n != events {
			t.Errorf("--threshold %s: code %d, %d events, want %d\n%s%s", thresholds, code, n, events, stdout, stderr)
		}
	}
	if _, stderr, code := clitest.Radar(t, "collect", "-r", file, "--threshold", "10%"); code != kit.ExitUsage || !strings.Contains(stderr, "use METRIC=10%") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// TestCollectJoined: what three switches report of a packet behind its MX header (laofan13/P4-INT,
// int-mx/pcap) is one packet, and a way among the metrics.
func TestCollectJoined(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	var cards []string
	for _, of := range []string{"1 40 6227 02b18c35 0003", "2 3f 6327 02adcc22 0003", "3 3e 6427 02a7e6c7 0004"} {
		f := strings.Fields(of)
		cards = append(cards, "104000000000000"+f[0]+"1400003000000000000000"+"00ffffffffffff00000a0001010800455c006600010000"+f[1]+"11"+f[2]+
			"0a0001010a000303fa391f9000525dff300e000020000000ff00000000000000"+"0000000"+f[0]+"0000"+f[4]+f[3]+"000000000000000000000000"+"00000000"+f[3]+"000000000000"+f[4]+"00000000")
	}
	if _, stderr, code := clitest.Radar(t, "collect", "--all", "--join", "10s", "-r", sentFile(t, cards...)); code != kit.ExitOK || !strings.Contains(stderr, "3 reports, 0 of them without an event; 1 packet kept") ||
		!strings.Contains(stderr, "at 3 hops the time of arrival was lost") {
		t.Errorf("code %d, %s", code, stderr)
	}
	for command, want := range map[string]string{
		"paths": "int-1 > int-2 > int-3", "int metrics --metric flow_path": "int-1 > int-2 > int-3",
	} {
		if stdout, stderr, code := clitest.Radar(t, strings.Fields(command)...); code != kit.ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("%s: code %d, %s%s", command, code, stderr, stdout)
		}
	}
}

// TestCollectEventTime: what is asked for reaches the events, and what cannot be is said.
func TestCollectEventTime(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	file := clitest.ReportsFile(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--event-time report", kit.ExitOK, "is further than --max-skew from when they came"},
		{"--event-time report", kit.ExitOK, "without a time: when they came was taken"},
		{"--event-time arrival", kit.ExitOK, "10 reports"},
		{"--event-time never", kit.ExitUsage, "arrival"},
		{"--max-skew 5s", kit.ExitUsage, "--max-skew is about --event-time report"},
		{"--event-time report --max-skew 0s", kit.ExitUsage, "use up to 24h"},
		{"--event-time report --max-skew 25h", kit.ExitUsage, "use up to 24h"},
	} {
		_, stderr, code := clitest.Radar(t, append([]string{"collect", "-r", file}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || c.want == "10 reports" && strings.Contains(stderr, "skew") {
			t.Errorf("%s: code %d, %s", c.args, code, stderr)
		}
	}
}
