// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/note"
)

// Ability is a question that a source can answer; several are their sum.
type Ability uint

// The questions. OfFlows and OfThroughput need no more than sums, all others need packets.
const (
	OfFlows      Ability = 1 << iota // who talks to whom: packets and bytes
	OfThroughput                     // packets and bytes at ports and nodes
	OfPaths                          // by which nodes, ports and links packets went
	OfLatency                        // how long they took
	OfLosses                         // where they were lost, or dropped after delivery, and why
	OfPackets                        // single packets
)

// OfAll is what a source of packets can answer.
const OfAll = OfFlows | OfThroughput | OfPaths | OfLatency | OfLosses | OfPackets

// abilities are what they are called in sentences.
var abilities = map[Ability]string{
	OfFlows: "flows", OfThroughput: "throughput", OfPaths: "paths", OfLatency: "latencies", OfLosses: "losses", OfPackets: "single packets",
}

// Abilities are what a source can answer.
type Abilities struct {
	Source string  // what it is called in sentences
	Can    Ability // which questions it can answer
	Why    string  // why it can answer no others; "" if it can answer all
}

// cannot says which sources have nothing to say to a question, and why. Their part is missing in the answer.
func (s *Sources) cannot(question Ability) (notes []Note) {
	if s == nil {
		return nil
	}
	for _, source := range s.list {
		if a := source.Abilities(); a.Can&question == 0 {
			notes = append(notes, note.CannotAnswer{Source: a.Source, What: abilities[question], Why: a.Why})
		}
	}
	return notes
}

// throughputOf is the question that throughput by a group is: who counts at ports knows no links and no paths.
func throughputOf(by aggregate.By) Ability {
	if by == aggregate.ByLink || by == aggregate.ByPath {
		return OfPaths
	}
	return OfThroughput
}
