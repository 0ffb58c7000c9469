// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// The running kernel has every reason and function that is called no fault: a name with
// a mistake in it would match nothing.
func TestTCPFrees(t *testing.T) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var reasons *btf.Enum
	if err := spec.TypeByName("skb_drop_reason", &reasons); err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, v := range reasons.Values {
		known[v.Name] = true
	}
	newest := known["SKB_DROP_REASON_TCP_RFC7323_PAWS_ACK"] // Linux 6.14; older ones lack some
	for reason, functions := range aggregate.TCPFrees {
		if newest && !known["SKB_DROP_REASON_"+reason] {
			t.Errorf("this kernel has no drop reason %s", reason)
		}
		for _, name := range functions {
			var f *btf.Func
			if err := spec.TypeByName(name, &f); name != "" && err != nil {
				t.Errorf("%s: %s: %v", reason, name, err)
			}
		}
	}
}

// What TCP itself frees after delivery is no drop of a flow that anybody needs to look at.
func TestDropped(t *testing.T) {
	a := aggregate.New(0)
	for _, why := range [][2]string{{"QUEUE_PURGE", "sk_stream_kill_queues"}, {"QUEUE_PURGE", "inet_sock_destruct"}, {"SOCKET_RCVBUFF", ""}} {
		p := delivered()
		p.LocalDrop = true
		p.Loss = packet.Drop{Node: 3, Port: packet.NoPort, At: record.AtNode, Reason: why[0], Function: packet.NamedFunction(why[1])}
		a.Add(p)
	}
	if f := a.Flows(letters{}, nil)[0]; f.LocalDrops != 3 || f.Dropped != 2 {
		t.Errorf("freed after delivery: %d, dropped: %d; want 3 and 2", f.LocalDrops, f.Dropped)
	}
}
