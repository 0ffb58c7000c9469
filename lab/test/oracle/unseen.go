// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// maxDropDelay, ns, is at most between a packet's entry into a node and its drop there:
// the kernel's thread for softirqs shares its CPU, and the machine may stand still.
const maxDropDelay = int64(30e9)

// lossPlace is where radar says that something was lost.
type lossPlace struct {
	node, port string
	at         record.At
}

// Unseen excludes losses for which the kernel ran no BPF program: some kernels (of sandboxed
// virtual machines) call no tracing program while certain tasks are current. blind reports
// whether there was such a drop, for one of the reasons, between two times (Unix ns). It must
// rely on something other than BPF, and count each drop for one call only. It is called once
// for each buffer, in the order of time. The rows about losses say how many were excluded.
func (c *Comparison) Unseen(blind func(from, to int64, reasons []string) bool) {
	lost := map[*Drop][]*packet{}
	kept := c.pairs[:0:0]
	c.taken, c.guessed = map[*packetPath]bool{}, map[lossPlace]int64{}
	dropped := slices.SortedStableFunc(slices.Values(c.pairs), func(a, b pair) int { return cmp.Compare(a.path.last().at, b.path.last().at) })
	excused := map[*frame]bool{}
	for _, p := range dropped {
		if in := p.path.last(); p.overlooked() && !excused[in.frame] {
			excused[in.frame] = blind(in.at, in.at+maxDropDelay, p.outcome.drop.Reasons)
		}
	}
	for _, p := range c.pairs {
		if p.overlooked() && excused[p.path.last().frame] {
			lost[p.outcome.drop] = append(lost[p.outcome.drop], p.path.last())
			c.taken[p.path] = true
			if l := p.r.Loss; l != nil {
				c.guessed[lossPlace{l.Node, l.Port, l.At}]++
			}
			continue
		}
		kept = append(kept, p)
	}
	c.pairs = kept
	c.unseen = map[string]Losses{}
	for d, pkts := range lost {
		c.unseen[d.Name] = Losses{
			Node: d.Node, Port: d.Port, At: d.At, Packets: int64(len(pkts)), Skbs: int64(c.truth.buffers(d, pkts)),
		}
	}
}

// overlooked reports whether a packet was dropped and radar did not see the drop.
func (p *pair) overlooked() bool {
	return p.outcome.drop != nil && (p.r.Loss == nil || p.r.Loss.Inferred()) && p.r.State != record.Delivered
}

// unseenNote notes in a row how many losses were excluded.
func (c *Comparison) unseenNote(row *Row) {
	n := int64(0)
	for _, l := range c.unseen {
		n += l.Packets
	}
	if n > 0 {
		row.Note = fmt.Sprintf("and %d lost while the kernel ran no tracing program", n)
	}
}
