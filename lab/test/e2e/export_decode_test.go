// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

// TestExportDecodes: what radar has exported, as tcpdump has captured it, is what a decoder that
// shares nothing with radar reads: nodes, latencies, losses of each packet, in every form, without
// a problem. (pkg/cli/export, TestExport, makes the captures; on the loopback device nobody fills in
// UDP checksums.)
func TestExportDecodes(t *testing.T) {
	const dir = "../../../pkg/cli/export/testdata/reports"
	b, err := os.ReadFile(filepath.Join(dir, "packets.json"))
	if err != nil {
		t.Fatal(err)
	}
	var kept struct{ Packets []record.Record }
	if err := json.Unmarshal(b, &kept); err != nil {
		t.Fatal(err)
	}
	if len(kept.Packets) == 0 {
		t.Fatal("no packets")
	}
	want := make(map[string]string)
	for i := range kept.Packets {
		r := &kept.Packets[i]
		var hops []string
		for _, h := range r.Hops {
			hop := fmt.Sprint(h.NodeID)
			if h.NodeNs != nil {
				ns := *h.NodeNs
				if h.QueueNs != nil {
					ns += *h.QueueNs
				}
				hop += fmt.Sprint(" ", ns)
			}
			hops = append(hops, hop)
		}
		slices.Sort(hops) // reports of nodes come one by one
		want[fmt.Sprint(r.Src, r.Dst, r.IPID)] = fmt.Sprint(hops, r.State == record.Lost)
	}
	for name, args := range map[string][]string{
		"int-md-2.0": {"--int-port", "5000"}, "int-md-2.0-dscp": nil, "int-md-1.0": nil, "int-xd-2.0": nil, "int-xd-1.0": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hops, lost := make(map[string][]string), make(map[string]bool)
			for i, r := range intDecode(t, append(args, filepath.Join(dir, name+".pcap"))...) {
				for _, p := range asObject(r)["problems"].([]any) {
					if !strings.HasPrefix(p.(string), "report datagram: UDP checksum") {
						t.Errorf("report %d: %s", i, p)
					}
				}
				packet, report := asObject(r["packet"]), asObject(r["report"])
				ip, flow := asObject(packet["ip"]), asObject(packet["flow"])
				id := fmt.Sprint(flow["src"], flow["dst"], ip["id"])
				if in := asObject(packet["int"]); in != nil {
					for _, h := range in["hops_top_first"].([]any) {
						hops[id] = append(hops[id], decodedHop(asObject(h)["node_id"], asObject(h)))
					}
				} else if group := asObject(r["group"]); group != nil {
					hops[id] = append(hops[id], decodedHop(group["node_id"], report))
				} else {
					hops[id] = append(hops[id], decodedHop(report["switch_id"], report))
				}
				lost[id] = lost[id] || fmt.Sprint(report["D"]) == "1"
			}
			if len(hops) != len(want) {
				t.Errorf("%d packets, want %d", len(hops), len(want))
			}
			for id, w := range want {
				slices.Sort(hops[id])
				if got := fmt.Sprint(hops[id], lost[id]); got != w {
					t.Errorf("%s: %s, want %s", id, got, w)
				}
			}
		})
	}
}

// decodedHop is a node and how long the packet was in it, if that is known.
func decodedHop(node any, values map[string]any) string {
	if ns := values["hop_latency"]; ns != nil && ns != "invalid" {
		return fmt.Sprint(node, " ", ns)
	}
	return fmt.Sprint(node)
}
