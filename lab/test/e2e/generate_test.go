// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/radarbin"
)

// described is what "radar collect generate" was told, of what the reports depend on.
type described struct {
	version, bitmap string // "": 2.0, all
	xd, ipv6, ip    bool
	transport       string
	vlan            int
	hops, flows     int
	group           int
	drops           bool
	more            []string
}

func (d *described) args() []string {
	args := []string{"--hops", fmt.Sprint(d.hops), "--flows", fmt.Sprint(d.flows), "--first-node", "100", "--rate", "1000",
		"--latency", "5000-6000", "--queue", "100-150", "--queue-step", "7", "--hw-id", "9", "--group", fmt.Sprint(d.group)}
	if d.version != "" {
		args = append(args, "--report", d.version)
	}
	if d.bitmap != "" {
		args = append(args, "--instructions", d.bitmap)
	}
	if d.transport != "" {
		args = append(args, "--transport", d.transport)
	}
	if d.vlan != 0 {
		args = append(args, "--vlan", fmt.Sprint(d.vlan))
	}
	if d.drops {
		args = append(args, "--drops", "0.25")
	}
	for flag, is := range map[string]bool{"--mode=xd": d.xd, "--ipv6": d.ipv6, "--quote=ip": d.ip} {
		if is {
			args = append(args, flag)
		}
	}
	return append(args, d.more...)
}

// TestGeneratedReports lets the independent decoder read what radar makes, and holds every value to
// what was described.
func TestGeneratedReports(t *testing.T) {
	for _, d := range []described{
		{hops: 5, flows: 7, group: 1},
		{hops: 5, flows: 7, group: 3, drops: true},
		{hops: 2, flows: 3, group: 1, ipv6: true, transport: "tcp", vlan: 42},
		{hops: 19, flows: 1, group: 1, transport: "mixed", ip: true},
		{hops: 3, flows: 300, group: 2, ip: true, ipv6: true, bitmap: "0x9000", transport: "mixed"},
		{hops: 1, flows: 1, group: 1, bitmap: "0x7f80"},
		{hops: 4, flows: 5, group: 4, xd: true, drops: true},
		{hops: 4, flows: 5, group: 1, xd: true, ipv6: true, vlan: 4094, transport: "tcp"},
		{hops: 5, flows: 7, group: 1, version: "1.0"},
		{hops: 3, flows: 7, group: 1, version: "1.0", transport: "tcp", drops: true, vlan: 1},
		{hops: 3, flows: 7, group: 1, version: "1.0", ipv6: true, transport: "mixed", bitmap: "0x9c01"},
		{hops: 3, flows: 7, group: 1, version: "1.0", ip: true, xd: true, drops: true},
		{hops: 3, flows: 7, group: 1, version: "1.0", ip: true, ipv6: true, xd: true},
	} {
		t.Run(strings.Join(d.args(), " "), func(t *testing.T) {
			t.Parallel()
			records := intDecode(t, generateFile(t, d.args(), 400))
			c := generatedCheck{described: &d}
			for i, record := range records {
				if c.check(t, record); t.Failed() {
					raw, _ := json.Marshal(record)
					t.Fatalf("record %d: %s", i, raw)
				}
			}
			c.end(t, len(records))
		})
	}
}

// generateFile returns a capture file of n datagrams.
func generateFile(t *testing.T, args []string, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "generated.pcap")
	args = append([]string{"collect", "generate", "--write", path, "--count", fmt.Sprint(n)}, args...)
	if out, err := exec.Command(radarbin.Path(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return path
}

// generatedCheck holds records to a description.
type generatedCheck struct {
	*described
	lost int
}

// The bits of instructions, and of what reports of 1.0 and 2.0 have, with the names of values.
var intNames = []struct {
	bit   uint64
	names []string
}{
	{0x8000, []string{"node_id"}}, {0x4000, []string{"l1_in", "l1_out"}}, {0x2000, []string{"hop_latency"}},
	{0x1000, []string{"queue_id", "queue_occ"}}, {0x0800, []string{"ingress_ts"}}, {0x0400, []string{"egress_ts"}},
	{0x0200, []string{"l2_in", "l2_out"}}, {0x0100, []string{"egress_tx_util"}}, {0x0080, []string{"buffer_id", "buffer_occ"}},
	{0x0001, []string{"checksum_complement"}},
}

func (d *described) instructions() (bitmap uint64) {
	switch {
	case d.bitmap != "":
		fmt.Sscanf(d.bitmap, "0x%x", &bitmap)
	case d.version == "1.0":
		bitmap = 0xff01
	default:
		bitmap = 0xff81
	}
	return bitmap
}

func integer(t *testing.T, object map[string]any, name string) int64 {
	t.Helper()
	n, ok := object[name].(json.Number)
	if !ok {
		t.Errorf("%s is %v", name, object[name])
		return 0
	}
	v, err := n.Int64()
	if err != nil {
		t.Error(err)
	}
	return v
}

// equal wants a value, if the object is to have it.
func equal(t *testing.T, object map[string]any, name string, want any) {
	t.Helper()
	if fmt.Sprint(object[name]) != fmt.Sprint(want) {
		t.Errorf("%s is %v, want %v", name, object[name], want)
	}
}

func (c *generatedCheck) check(t *testing.T, record map[string]any) {
	compareProblems(t, record, nil)
	if notes := record["notes"].([]any); len(notes) > 0 {
		t.Errorf("notes %v", notes)
	}
	equal(t, record, "udp_checksum", "right")
	report, packet := asObject(record["report"]), asObject(record["packet"])
	dropped := fmt.Sprint(report["D"]) == "1"
	equal(t, report, "F", 1)
	equal(t, report, "Q", 0)
	head, node := asObject(record["group"]), "node_id"
	if c.version == "1.0" {
		head, node = report, "switch_id"
	}
	equal(t, head, "hw_id", 9)
	reporter := integer(t, head, node) - 100 // from 0
	if last := int64(c.hops - 1); reporter < 0 || reporter > last || !c.xd && !dropped && reporter != last {
		t.Errorf("reported by node %d", reporter)
	}
	c.metadata(t, report, reporter, dropped)
	number := c.packet(t, packet, reporter)
	in := asObject(packet["int"])
	hops, _ := in["hops_top_first"].([]any)
	want := reporter + 1
	if dropped {
		c.lost++
		want--
	}
	if c.xd {
		want = 0
	}
	if int64(len(hops)) != want {
		t.Fatalf("%d hops, want %d", len(hops), want)
	}
	if want == 0 {
		if in != nil {
			t.Errorf("INT without hops: %v", in)
		}
		return
	}
	c.stack(t, in, hops, number)
}

// metadata checks what the report itself says.
func (c *generatedCheck) metadata(t *testing.T, report map[string]any, node int64, dropped bool) {
	bits := uint64(0)
	if c.xd {
		bits = c.instructions() &^ 0x8001
	}
	if dropped {
		bits = c.instructions() &^ (0x8001 | 0x2000 | 0x0400 | 0x0100)
		equal(t, report, "drop_reason", 80)
	} else if _, ok := report["drop_reason"]; ok {
		t.Errorf("a reason of no drop: %v", report)
	}
	if c.version == "1.0" {
		bits = bits&^0x0280 | 0x0800 // no level-2 ports, buffers; always the time of ingress
	}
	c.values(t, report, bits, node, "report")
}

// values checks the values that bits ask for, and that there are no others.
func (c *generatedCheck) values(t *testing.T, object map[string]any, bits uint64, node int64, where string) {
	t.Helper()
	for _, n := range intNames {
		for _, name := range n.names {
			_, there := object[name]
			if there != (bits&n.bit != 0) {
				t.Errorf("%s: %s is there: %v, with 0x%04x", where, name, there, bits)
			}
			if !there {
				continue
			}
			switch name {
			case "node_id":
				equal(t, object, name, 100+node)
			case "l1_in":
				equal(t, object, name, 1)
			case "l1_out":
				equal(t, object, name, 2)
			case "l2_in":
				equal(t, object, name, (100+node)<<8|1)
			case "l2_out":
				equal(t, object, name, (100+node)<<8|2)
			case "hop_latency":
				if v := integer(t, object, name); v < 5000 || v > 6000 {
					t.Errorf("latency %d", v)
				}
			case "queue_id", "buffer_id":
				if v := integer(t, object, name); v < 0 || v > 7 {
					t.Errorf("%s %d", name, v)
				}
			}
		}
	}
	if bits&0x2c00 == 0x2c00 && c.version != "1.0" {
		if d := integer(t, object, "egress_ts") - integer(t, object, "ingress_ts"); d != integer(t, object, "hop_latency") {
			t.Errorf("%d ns from ingress to egress: %v", d, object)
		}
	}
}

// stack checks INT in the packet of a number.
func (c *generatedCheck) stack(t *testing.T, in map[string]any, hops []any, number int64) {
	t.Helper()
	bits := c.instructions()
	header := asObject(in["header"])
	equal(t, header, "instruction_bitmap", fmt.Sprintf("0x%04x", bits))
	equal(t, header, "remaining_hop_count", 60-len(hops))
	equal(t, asObject(in["shim"]), "orig_dscp", 0)
	version := 2
	if c.version == "1.0" {
		version = 1
	}
	equal(t, header, "version", version)
	for i := range hops {
		node := int64(len(hops) - 1 - i)
		hop := asObject(hops[i])
		c.values(t, hop, bits, node, fmt.Sprintf("hop %d", i))
		if bits&0x1000 != 0 && number >= 0 {
			equal(t, hop, "queue_occ", 100+number*7%51)
		}
		if bits&0x0400 != 0 && bits&0x0800 != 0 && i > 0 && version == 2 {
			next := asObject(hops[i-1])
			if d := integer(t, next, "ingress_ts") - integer(t, hop, "egress_ts"); d != 1000 {
				t.Errorf("%d ns on the link behind hop %d", d, i)
			}
		}
		if bits&0x0800 != 0 && version == 2 && node == 0 && number >= 0 {
			equal(t, hop, "ingress_ts", startOfReports+number*(1_000_000/int64(c.group)))
		}
	}
}

// startOfReports is when the first packet comes, ns: 2026-01-01.
const startOfReports = 1_767_225_600_000_000_000

// packet checks the quoted packet and returns its number, if it can be told.
func (c *generatedCheck) packet(t *testing.T, packet map[string]any, reporter int64) int64 {
	t.Helper()
	start := "ethernet"
	switch {
	case c.ip && c.ipv6:
		start = "ipv6"
	case c.ip:
		start = "ipv4"
	}
	equal(t, packet, "starts_at", start)
	equal(t, packet, "whole", true)
	if c.vlan != 0 {
		tag := asObject(asObject(packet["ethernet"])["vlans"].([]any)[0])
		equal(t, tag, "id", c.vlan)
	} else if _, ok := asObject(packet["ethernet"])["vlans"]; ok {
		t.Error("a VLAN tag")
	}
	ip, l4, flow := asObject(packet["ip"]), asObject(packet["l4"]), asObject(packet["flow"])
	index := integer(t, l4, "src_port") - 10000
	if index < 0 || index >= int64(c.flows) {
		t.Errorf("flow %d", index)
	}
	src, dst, ttl := fmt.Sprintf("198.18.%d.%d", index>>8, index&255), fmt.Sprintf("198.19.%d.%d", index>>8, index&255), "ttl"
	if c.ipv6 {
		src, dst, ttl = fmt.Sprintf("2001:2::1:%x", index), fmt.Sprintf("2001:2::2:%x", index), "hop_limit"
		equal(t, ip, "flow_label", index)
	} else {
		equal(t, ip, "checksum", "right")
	}
	equal(t, flow, "src", src)
	equal(t, flow, "dst", dst)
	equal(t, flow, "dst_port", 8080)
	equal(t, l4, "checksum", "right")
	equal(t, ip, ttl, 64-reporter)
	proto := 17
	if c.transport == "tcp" || c.transport == "mixed" && index%2 == 1 {
		proto = 6
	}
	equal(t, flow, "protocol", proto)
	dscp := 0
	if packet["int"] != nil {
		dscp = 0x17
	}
	equal(t, ip, "dscp", dscp)
	if c.ipv6 {
		return -1
	}
	return integer(t, ip, "id")*int64(c.flows) + index
}

// end checks what all records have to say together.
func (c *generatedCheck) end(t *testing.T, n int) {
	want := 400 * c.group
	if !c.drops && n != want || n > want || n < 400 {
		t.Errorf("%d reports, want %d", n, want)
	}
	if c.drops != (c.lost > 0) {
		t.Errorf("%d drops", c.lost)
	}
	if !c.drops || c.xd { // a packet has several reports there
		return
	}
	if share := float64(c.lost) / float64(n); share < 0.17 || share > 0.33 {
		t.Errorf("%.2f of packets dropped, want about 0.25", share)
	}
}

// TestGeneratedGaps: sequence numbers wrap and have gaps where they are described, and nowhere else.
func TestGeneratedGaps(t *testing.T) {
	for _, c := range []struct {
		args  []string
		first string
		want  int
	}{
		{nil, "4194254", 0}, // 2^22 - 50
		{[]string{"--gap-every", "30"}, "4194254", 6},
		{[]string{"--gap-every", "30", "--report", "1.0"}, "4294967246", 6},
		{[]string{"--gap-every", "30", "--mode", "xd", "--hops", "2"}, "0", 6},
	} {
		gaps := 0
		for _, record := range intDecode(t, generateFile(t, append([]string{"--first-sequence", c.first}, c.args...), 200)) {
			for _, problem := range record["problems"].([]any) {
				if gaps++; !strings.HasPrefix(problem.(string), "sequence gap") {
					t.Errorf("%v: %v", c.args, problem)
				}
			}
		}
		if gaps != c.want {
			t.Errorf("%v: %d gaps, want %d", c.args, gaps, c.want)
		}
	}
}
