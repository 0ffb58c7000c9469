// SPDX-License-Identifier: Apache-2.0

package postcard

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

const nodeA, nodeB = 1, 2

// join joins postcards of packets of one name: "A3" is node A's of the packet whose payload says 3. Each packet that is
// emitted is the list of its postcards.
func join(cards []string) []string {
	var got []string
	j := Joiner[string, string]{Window: 1 << 40, Emit: func(cards []string) {
		got = append(got, fmt.Sprint(slices.Sorted(slices.Values(cards))))
	}}
	for i, card := range cards {
		node, number := uint64(nodeA), uint32(0)
		if card[0] == 'B' {
			node = nodeB
		}
		fmt.Sscanf(card[1:], "%d", &number)
		of := Of[string]{Name: "f", Node: node, At: int64(i)}
		of.Trace.Content(binary.BigEndian.AppendUint32(make([]byte, 21), number)) // behind a connection ID, as in QUIC
		j.Add(&of, card)
	}
	j.All()
	slices.Sort(got)
	return got
}

// Postcards of packets whose payload differs are joined in whatever order they come.
func TestOrder(t *testing.T) {
	want := []string{"[A1 B1]", "[A2 B2]"}
	for _, cards := range [][]string{{"A1", "A2", "B1", "B2"}, {"A1", "B2", "A2", "B1"}, {"A1", "A2", "B2", "B1"}, {"B2", "A1", "A2", "B1"}} {
		if got := join(cards); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", cards, got, want)
		}
	}
}

// A node that has lost more postcards than are looked through is joined again once the packets in between have gone, even if
// others report before it.
func TestBurstLost(t *testing.T) {
	const lost, packets = maxAlike + 50, 3 * maxAlike
	joined := 0
	j := Joiner[string, uint64]{Window: 2 * maxAlike, Emit: func(cards []uint64) { joined += len(cards) - 1 }}
	for i := range packets {
		for _, node := range []uint64{nodeA, nodeB} {
			if node == nodeB && i > 0 && i < lost {
				continue
			}
			of := Of[string]{Name: "f", Node: node, At: int64(i)}
			of.Trace.Content(binary.BigEndian.AppendUint32(nil, uint32(i)))
			j.Add(&of, node)
		}
	}
	j.All()
	if joined < (packets-lost)/2 {
		t.Errorf("%d of %d packets of which both have reported are joined", joined, packets-lost+1)
	}
}
