// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/p4/recorded"
	"github.com/vnetradar/radar/p4/wireshark"
)

// shownFields are those of the plugin that are compared, with where this package's decoder has them.
// In a report its own values come first, then the hops, the newest first.
var shownFields = []struct {
	name string
	of   func(c *testcase, f facts) []string
}{
	{"int.node_id", perNode("node", func(n uint64) uint64 { return n })},
	{"int.l1_in", perNode("ports", func(n uint64) uint64 { return n >> 16 })},
	{"int.l1_out", perNode("ports", func(n uint64) uint64 { return n & 0xffff })},
	{"int.hop_latency", perNode("latency", func(n uint64) uint64 { return n })},
	{"int.queue_id", perNode("queue", func(n uint64) uint64 { return n >> 24 })},
	{"int.queue_occ", perNode("queue", func(n uint64) uint64 { return n & 0xffffff })},
	{"int.ingress_ts", perNode("in", func(n uint64) uint64 { return n })},
	{"int.egress_ts", perNode("out", func(n uint64) uint64 { return n })},
	{"int.l2_in", perNode("l2", func(n uint64) uint64 { return n >> 32 })},
	{"int.l2_out", perNode("l2", func(n uint64) uint64 { return n & 0xffffffff })},
	{"int.egress_tx_util", perNode("util", func(n uint64) uint64 { return n })},
	{"int.instruction_bitmap", ofINT(func(t *inband) any { return t.bitmap })},
	{"int.hops", ofINT(func(t *inband) any { return hopsShown(t) })},
	{"int.remaining_hop_count", ofINT(func(t *inband) any { return onlyMD(t, t.remaining) })},
	{"int.e", ofINT(func(t *inband) any { return onlyMD(t, b2i(t.e)) })},
	{"int.m", ofINT(func(t *inband) any { return onlyMD(t, b2i(t.m)) })},
	{"int.shim.npt", ofINT(func(t *inband) any { return notMD10(t, t.npt) })},
	{"int.drop_reason", ofReport(func(r *report) any { return r.reason })},
	{"int_report.node_id", ofReport(func(r *report) any { return r.node })},
	{"int_report.hw_id", ofReport(func(r *report) any { return r.hw })},
	{"int_report.seq", ofReport(func(r *report) any { return r.sequence })},
	{"int_report.ingress_ts", ofReport(func(r *report) any {
		if r.version == 20 {
			return absent
		}
		return r.values["in"]
	})},
	{"int_report.d", ofReport(func(r *report) any { return b2i(r.dropped) })},
	{"int_report.q", ofReport(func(r *report) any { return b2i(r.congested) })},
	{"int_report.f", ofReport(func(r *report) any { return b2i(r.flow) })},
}

// absent is a field that a format does not have.
const absent = -1

func hopsShown(t *inband) any      { return onlyMD(t, len(t.stack)) }
func onlyMD(t *inband, v any) any  { return map[bool]any{true: v, false: absent}[t.mode != mx] }
func notMD10(t *inband, v any) any { return map[bool]any{true: v, false: absent}[t.mode != md10] }

func perNode(value string, part func(uint64) uint64) func(*testcase, facts) []string {
	return func(c *testcase, f facts) (all []string) {
		for _, v := range f.nodes(c) {
			if _, ok := number(v, value); ok {
				all = append(all, strconv.FormatUint(part(v[value]), 10))
			}
		}
		return all
	}
}

func ofINT(get func(*inband) any) func(*testcase, facts) []string {
	return func(_ *testcase, f facts) []string {
		if f.int == nil || get(f.int) == absent {
			return nil
		}
		return []string{fmt.Sprint(get(f.int))}
	}
}

func ofReport(get func(*report) any) func(*testcase, facts) []string {
	return func(_ *testcase, f facts) []string {
		if f.report == nil || get(f.report) == absent {
			return nil
		}
		return []string{fmt.Sprint(get(f.report))}
	}
}

// tshark prints the fields of every packet of a capture, by the plugin.
func tshark(t *testing.T, plugin, file string) []map[string][]string {
	t.Helper()
	args := []string{"-n", "-X", "lua_script:" + plugin, "-r", file, "-T", "fields", "-E", "separator=;", "-E", "aggregator=,"}
	for _, f := range shownFields {
		args = append(args, "-e", f.name)
	}
	cmd := exec.Command("tshark", args...)
	home := filepath.Dir(plugin)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "RADAR_INT_PLUGIN="+plugin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(stderr.String(), "Lua") {
		t.Fatalf("tshark: %v\n%s", err, &stderr)
	}
	var all []map[string][]string
	for line := range strings.Lines(string(out)) {
		p := make(map[string][]string)
		for i, text := range strings.Split(strings.TrimRight(line, "\n"), ";") {
			if text != "" {
				p[shownFields[i].name] = plain10(strings.Split(text, ","))
			}
		}
		all = append(all, p)
	}
	return all
}

// plain10 writes numbers and flags as decimal numbers.
func plain10(list []string) []string {
	for i, s := range list {
		switch s {
		case "True":
			list[i] = "1"
		case "False":
			list[i] = "0"
		default:
			if n, err := strconv.ParseUint(s, 0, 64); err == nil {
				list[i] = strconv.FormatUint(n, 10)
			}
		}
	}
	return list
}

// TestReplayTshark: Wireshark's plugin shows of every recorded packet what this package's decoder reads.
func TestReplayTshark(t *testing.T) {
	need.Programs(t, "tshark")
	m := recordings(t)
	source, err := wireshark.INT.File()
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(t.TempDir(), wireshark.INT.Name())
	if err := os.WriteFile(plugin, source, 0o600); err != nil {
		t.Fatal(err)
	}
	var frames []recorded.Packet
	var compare []func(shown map[string][]string)
	for _, c := range cases() {
		r := m.Case(c.name)
		if r == nil {
			continue // TestReplay says so
		}
		inOrder(r, func(number int, link string, p recorded.Packet) {
			f := c.factsOf(link, p.Data)
			if f.report == nil && f.int == nil {
				return
			}
			frames = append(frames, p)
			compare = append(compare, func(shown map[string][]string) {
				for _, field := range shownFields {
					if got, want := shown[field.name], field.of(c, f); !slices.Equal(got, want) {
						t.Errorf("%s, packet %d on link %s: tshark shows %s %q, want %q", r.File, number, link, field.name, got, want)
					}
				}
			})
		})
	}
	shown := tshark(t, plugin, writePcap(t, frames))
	if len(shown) != len(frames) || len(frames) < 100 {
		t.Fatalf("tshark shows %d packets of %d with INT, and reports", len(shown), len(frames))
	}
	for i, f := range compare {
		f(shown[i])
	}
}

// writePcap writes a capture file by hand, so that it shares nothing with radar's own writer.
func writePcap(t *testing.T, packets []recorded.Packet) string {
	t.Helper()
	le := binary.LittleEndian
	var b []byte
	for _, v := range []uint32{0xa1b2c3d4, 2 | 4<<16, 0, 0, 1 << 18, 1} {
		b = le.AppendUint32(b, v)
	}
	for _, p := range packets {
		for _, v := range []int{int(p.Time.Unix()), p.Time.Nanosecond() / 1000, len(p.Data), len(p.Data)} {
			b = le.AppendUint32(b, uint32(v))
		}
		b = append(b, p.Data...)
	}
	path := filepath.Join(t.TempDir(), "frames.pcap")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
