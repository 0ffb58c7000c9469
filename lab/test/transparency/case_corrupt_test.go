// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"math/bits"

	"github.com/vnetradar/radar/pkg/record"
)

// What netem spoils it chooses by chance, so runs cannot be compared. But it flips one bit
// of each frame, and says how many came out: whatever arrives has one bit that was not
// sent. If radar knew the packet again, the rest is as it was sent.

// corruptedPackets is how many are sent.
const corruptedPackets = 120

// contentBytes of UDP's payload are what radar knows a packet again by; the header has
// its protocol and length, see identity.h.
const contentBytes = 8

// random leaves out what the case has sent: no two runs have the same of it.
var random = Rule{
	Name: "corrupted", Why: "netem flips bits by chance",
	Skip: func(s *sighting) bool { return s.node == "far" },
}

var _ = add(Case{
	Name: "netem/corrupt", Point: 7,
	Shows: "a link that flips a bit of each packet (netem): what is known again is restored, what is not keeps the bits of the link",
	Needs: []string{"netem"}, Loose: true,
	Rules: []Rule{random},
	// A spoiled ID or TTL is that of another slot: of one that is used, or too old.
	Counters: map[string]int{"stale": orNone},
	Build: func(w *World) {
		line(w)
		w.Queue("r2", "eth1", "handle", "1:", "netem", "limit", "1000", "corrupt", "100%")
		w.Socket("far", "0.0.0.0:7")
		w.QueueCounters("r2", "eth1")
		w.Attach("r1", "r2", "r3")
	},
	Send: func(w *World) {
		for i := range corruptedPackets {
			p := w.UDP("10.0.1.1", "10.0.4.2", 40+i)
			for k := range p.Payload { // no token, which might be spoiled
				p.Payload[k] = byte(i*7 + k)
			}
			w.Send("out", p)
		}
	},
	Check: checkCorrupted,
})

// sentBytes is what leaves r3 of a packet if nobody touches it but routers.
func sentBytes(s *sighting) []byte {
	b := bytes.Clone(s.frame[s.decoded.l3:s.end])
	b[8] -= 3
	sumIPv4(b)
	return b
}

// flipped counts the bits in which two packets differ, outside of the IP header and in it.
func flipped(a, b []byte) (header, rest int) {
	if len(a) != len(b) {
		return len(a), len(b)
	}
	for i := range a {
		n := bits.OnesCount8(a[i] ^ b[i])
		if i < 20 {
			header += n
		} else {
			rest += n
		}
	}
	return header, rest
}

func checkCorrupted(r *Run) {
	sent := make(map[int][]byte) // by length: all have another
	arrived, kept := 0, 0
	for _, c := range r.captures {
		for _, s := range c.seen {
			if c.node == "out" && s.dir == out && s.decoded != nil && s.proto17() {
				sent[s.end-s.decoded.l3] = sentBytes(s)
			}
		}
	}
	for _, c := range r.captures {
		for _, s := range c.seen {
			if c.node != "far" || s.dir != in || s.decoded == nil {
				continue
			}
			arrived++
			got := s.frame[s.decoded.l3:s.end]
			want := sent[len(got)]
			header, rest := flipped(want, got)
			identity := want != nil && !bytes.Equal(want[28:28+contentBytes], got[28:28+contentBytes])
			switch {
			case rest > 1:
				r.T.Errorf("%d bits behind the header differ:\n%s\n%s", rest, dump(want, got), dump(got, want))
			case header == 0:
			case identity:
				kept++ // not known again: it has what is on the link
			default:
				r.T.Errorf("the header differs in %d bits, the content by which packets are known does not:\n%s\n%s",
					header, dump(want, got), dump(got, want))
			}
		}
	}
	if arrived < corruptedPackets/2 {
		r.T.Errorf("%d of %d packets arrived", arrived, corruptedPackets)
	}
	states := make(map[record.State]int)
	for i := range r.Records {
		states[r.Records[i].State] += r.Records[i].Segs
	}
	r.T.Logf("%d of %d spoiled packets arrived, %d of them with bits of the link; records: %v", arrived, corruptedPackets, kept, states)
	if n := states[record.Left]; n != arrived-kept {
		r.T.Errorf("%d records say that the packet left, %d arrived restored", n, arrived-kept)
	}
	if n := states[record.Delivered]; n > 0 {
		r.T.Errorf("%d records say delivered", n)
	}
}

// proto17 reports whether it is UDP.
func (s *sighting) proto17() bool { return s.decoded.proto == 17 }
