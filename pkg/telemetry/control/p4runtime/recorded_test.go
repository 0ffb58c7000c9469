// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/vnetradar/radar/lab/test/p4rt"
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

func readText(t *testing.T, name string, into proto.Message) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err == nil {
		err = prototext.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRecorded: what BMv2 answered after it got a state is what that state wants. make p4-test RECORD=1 records it.
func TestRecorded(t *testing.T) {
	held := new(p4.ReadResponse)
	readText(t, "bmv2-held.txtpb", held)
	s := start(t, new(p4rt.Server))
	s.Hold(t, held.GetEntities()...)
	d := device(s.Address())
	d.Options["foreign"] = "pass"
	d.Options["ports"] = map[string]any{"eth0": 1, "eth1": 2, "eth2": 3}
	d.Options["collector"] = map[string]any{"port": 4, "src_mac": "02:00:00:00:01:04", "dst_mac": "02:00:00:00:00:09", "src": "10.0.9.1"}
	want := control.State{
		NodeID: 0xa1, Mark: "dscp=0x17/0x3f", Collector: netip.MustParseAddrPort("10.0.9.9:32766"), Report: "2.0", Quote: 32,
		Ports: []control.DevicePort{{Name: "eth0", Role: control.Edge}, {Name: "eth1", Role: control.Transit}, {Name: "eth2", Role: control.Transit}},
		Entries: []control.Entry{
			{Intent: "web", Slice: control.Slice{Src: []string{"10.0.1.0/24"}, Proto: "udp", Dport: []string{"4096-8191"}}, Mode: control.MD, Instructions: 0xfc00},
		},
	}
	c := mustConnect(t, d)
	if lines, err := c.Plan(t.Context(), want); err != nil || len(lines) > 0 {
		t.Errorf("%v: what BMv2 holds differs from what it got:\n%s", err, strings.Join(lines, "\n"))
	}
	want.NodeID++
	if lines, err := c.Plan(t.Context(), want); err != nil || len(lines) != 3 { // and the entry, which is written again
		t.Errorf("another node id: %v, %q", err, lines)
	}
}

// TestRecordedRefusals: of several updates those are named that BMv2 has refused, with its reason.
func TestRecordedRefusals(t *testing.T) {
	answer := new(spb.Status)
	readText(t, "bmv2-refused.txtpb", answer)
	err := explain(status.ErrorProto(answer), 5, func(i int) string { return string(rune('a' + i)) })
	const want = "b: the switch refuses it: AlreadyExists Match entry exists, use MODIFY if you wish to change action\n" +
		"c: the switch refuses it: NotFound Cannot find match entry\n" +
		"e: the switch refuses it: AlreadyExists Clone session id already exists"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}
