// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// maxDropDelay between the moment when a packet entered the node that dropped
// it and the drop, ns: the kernel's thread for softirqs shares its CPU, and the machine
// may stand still. Longer than that it does not.
const maxDropDelay = int64(30e9)

// lossPlace is where radar says that something was lost.
type lossPlace struct {
	node, port string
	at         record.At
}

// Unseen takes out of the judgement those losses for which no BPF program ran,
// by the kernel's own word: some kernels (of sandboxed virtual machines) call no
// tracing program while certain tasks are current. blind is asked whether a drop
// for one of the reasons, between two times (Unix ns), was such a one; it must count each
// drop for one question only. It is asked once for each buffer, in the order of time. It
// must rely on something other than BPF. The rows about losses name how many they are.
func (c *Comparison) Unseen(blind func(from, to int64, reasons []string) bool) {
	lost := map[*Drop][]*unit{}
	kept := c.pairs[:0:0]
	c.taken, c.guessed = map[*journey]bool{}, map[lossPlace]int64{}
	dropped := slices.SortedStableFunc(slices.Values(c.pairs), func(a, b pair) int { return cmp.Compare(a.j.last().at, b.j.last().at) })
	excused := map[*frame]bool{}
	for _, p := range dropped {
		if in := p.j.last(); p.overlooked() && !excused[in.frame] {
			excused[in.frame] = blind(in.at, in.at+maxDropDelay, p.fate.drop.Reasons)
		}
	}
	for _, p := range c.pairs {
		if p.overlooked() && excused[p.j.last().frame] {
			lost[p.fate.drop] = append(lost[p.fate.drop], p.j.last())
			c.taken[p.j] = true
			if l := p.r.Loss; l != nil {
				c.guessed[lossPlace{l.Node, l.Port, l.At}]++
			}
			continue
		}
		kept = append(kept, p)
	}
	c.pairs = kept
	c.unseen = map[string]Losses{}
	for d, us := range lost {
		c.unseen[d.Name] = Losses{
			Node: d.Node, Port: d.Port, At: d.At, Packets: int64(len(us)), Skbs: int64(c.truth.buffers(d, us)),
		}
	}
}

// overlooked says whether a packet was dropped, and radar has not seen it.
func (p *pair) overlooked() bool {
	return p.fate.drop != nil && (p.r.Loss == nil || p.r.Loss.Inferred()) && p.r.State != record.Delivered
}

// unseenNote says in a row how many losses were taken out.
func (c *Comparison) unseenNote(row *Row) {
	n := int64(0)
	for _, l := range c.unseen {
		n += l.Packets
	}
	if n > 0 {
		row.Note = fmt.Sprintf("and %d lost while the kernel ran no tracing program", n)
	}
}
