// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

func TestJSON(t *testing.T) {
	r := record.Record{
		V: 1, ID: "1-2", GUID: "0x3", Source: "ebpf", State: record.Delivered, Time: "then", TNs: 4,
		IPVersion: 4, Src: "10.0.0.1", Dst: "10.0.0.2", Proto: "tcp", Len: 5, Segs: 1, TTL: 64,
		Hops: []record.Hop{{Node: "h1", NodeID: 1, Port: "eth0", Role: record.Source}},
	}
	for _, tc := range []struct {
		name   string
		change func()
		want   string
	}{
		{"with its header", func() {}, `{"v":1,"id":"1-2","guid":"0x3","source":"ebpf","state":"delivered","time":"then","t_ns":4,` +
			`"ip_version":4,"src":"10.0.0.1","dst":"10.0.0.2","proto":"tcp","len":5,"segs":1,"ttl":64,"dscp":0,"ecn":0,"ip_id":0,` +
			`"hops":[{"node":"h1","node_id":1,"port":"eth0","role":"source"}]}`},
		{"IPv6", func() { r.IPVersion, r.Src, r.Dst = 6, "2001:db8::1", "2001:db8::2" },
			`{"v":1,"id":"1-2","guid":"0x3","source":"ebpf","state":"delivered","time":"then","t_ns":4,` +
				`"ip_version":6,"src":"2001:db8::1","dst":"2001:db8::2","proto":"tcp","len":5,"segs":1,"ttl":64,"dscp":0,"ecn":0,` +
				`"hops":[{"node":"h1","node_id":1,"port":"eth0","role":"source"}]}`},
		{"header not known", func() {
			r.IPVersion = 4
			r.Src, r.Dst, r.TTL, r.Truncated = "", "", 0, true
			r.Hops = []record.Hop{{Node: "?", Role: record.Transit}}
		}, `{"v":1,"id":"1-2","guid":"0x3","source":"ebpf","state":"delivered","time":"then","t_ns":4,` +
			`"ip_version":4,"proto":"tcp","len":5,"segs":1,"hops":[{"node":"?","role":"transit"}],"truncated":true}`},
		{"neither header nor GUID", func() { r.GUID = "" }, `{"v":1,"id":"1-2","source":"ebpf","state":"delivered","time":"then","t_ns":4,` +
			`"ip_version":4,"proto":"tcp","len":5,"segs":1,"hops":[{"node":"?","role":"transit"}],"truncated":true}`},
		{"no GUID, IPv6", func() { r.IPVersion, r.Src, r.Dst, r.Truncated = 6, "2001:db8::1", "2001:db8::2", false },
			`{"v":1,"id":"1-2","source":"ebpf","state":"delivered","time":"then","t_ns":4,"ip_version":6,"src":"2001:db8::1",` +
				`"dst":"2001:db8::2","proto":"tcp","len":5,"segs":1,"ttl":0,"dscp":0,"ecn":0,"hops":[{"node":"?","role":"transit"}]}`},
		{"no GUID", func() { r.IPVersion = 4 },
			`{"v":1,"id":"1-2","source":"ebpf","state":"delivered","time":"then","t_ns":4,"ip_version":4,"src":"2001:db8::1",` +
				`"dst":"2001:db8::2","proto":"tcp","len":5,"segs":1,"ttl":0,"dscp":0,"ecn":0,"ip_id":0,"hops":[{"node":"?","role":"transit"}]}`},
	} {
		tc.change()
		if got, err := json.Marshal(r.JSON()); err != nil || string(got) != tc.want {
			t.Errorf("%s: %v\n got %s\nwant %s", tc.name, err, got, tc.want)
		}
	}
}

// A packet that was lost has no latency, however long it was in flight.
func TestLostHasNoLatency(t *testing.T) {
	n := int64(5)
	for state, want := range map[record.State]bool{record.Lost: false, record.Expired: false, record.Delivered: true, record.Left: true} {
		r := record.Record{State: state, LatencyNs: &n}
		if state == record.Expired {
			r.Loss = &record.Loss{}
		}
		text, err := json.Marshal(r.JSON())
		if got := strings.Contains(string(text), "latency_ns"); err != nil || got != want || r.LatencyNs == nil {
			t.Errorf("%s: %s, %v", state, text, err)
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	n := int64(5)
	r := record.Record{Src: "10.0.0.1", Hops: make([]record.Hop, 4)}
	for i := range r.Hops {
		r.Hops[i] = record.Hop{Node: "r1", NodeID: 1, Port: "eth0", Role: record.Transit, AtNs: &n, NodeNs: &n, LinkNs: &n, LatencyNs: &n}
	}
	for b.Loop() {
		if _, err := json.Marshal(r.JSON()); err != nil {
			b.Fatal(err)
		}
	}
}
