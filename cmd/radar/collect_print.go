// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/collect"
)

// printCollected says what became of everything that came.
func (a *app) printCollected(f *collectFlags, i *collect.Info) error {
	if a.output == formatJSON && f.show.value == "" && !f.out.stdout() {
		return printJSON(a.out, i)
	}
	n, m := &i.Counts, &i.Metrics
	fmt.Fprintf(a.stderr, "radar: %s, %d of them no report; %s, %d of them without an event; %s kept\n",
		plural(int(n.Packets), "datagram"), n.Rejected, plural(int(n.Reports), "report"), m.Unchanged, plural(int(n.Records), "packet"))
	if n.NoPacket > 0 {
		fmt.Fprintf(a.stderr, "radar: %s about no packet\n", plural(int(n.NoPacket), "report"))
	}
	if m.Full > 0 {
		fmt.Fprintf(a.stderr, "radar: %s had no room in the tables of metrics (--flows, --series)\n", plural(int(m.Full), "value"))
	}
	if m.Replaced > 0 {
		fmt.Fprintf(a.stderr, "radar: %s of flows went for others: a flow has room for 64\n", plural(int(m.Replaced), "node"))
	}
	if m.NoNode > 0 {
		fmt.Fprintf(a.stderr, "radar: %s without the node's id: in no metric of nodes\n", plural(int(m.NoNode), "hop"))
	}
	if n.Doubts > 0 {
		fmt.Fprintf(a.stderr, "radar: %s with something odd (radar int decode -r shows what)\n", plural(int(n.Doubts), "datagram"))
	}
	a.printJoins(n)
	if n.Alone > 0 {
		fmt.Fprintf(a.stderr, "radar: of %s one node alone has reported\n", plural(int(n.Alone), "packet"))
	}
	if n.ClockFaults > 0 {
		fmt.Fprintf(a.stderr, "radar: %s between nodes of one clock cannot be: do they share it? (--source ...,clock=shared, time=)\n", plural(int(n.ClockFaults), "time"))
	}
	if n.Untimed > 0 {
		fmt.Fprintf(a.stderr, "radar: %s without a time: when they came was taken\n", plural(int(n.Untimed), "report"))
	}
	if n.Skewed > 0 {
		fmt.Fprintf(a.stderr, "radar: the time of %s is further than --max-skew from when they came, which was taken: is the source's clock set, and its unit right (--source ...,time=)?\n", plural(int(n.Skewed), "report"))
	}
	if i.NotKept+i.Unsaved > 0 {
		fmt.Fprintf(a.stderr, "radar: the disk was full: %s not kept, %s failed\n", plural(int(i.NotKept), "datagram"), plural(int(i.Unsaved), "write"))
	}
	if i.LeftOut > 0 {
		fmt.Fprintf(a.stderr, "radar: there is no room for %s that radar metrics could show (--keep-metrics)\n", plural(int(i.LeftOut), "value"))
	}
	if i.Refused > 0 {
		fmt.Fprintf(a.stderr, "radar: %s refused: of sources that are not among those of --allow\n", plural(int(i.Refused), "datagram"))
	}
	if i.Bugs > 0 {
		fmt.Fprintf(a.stderr, "radar: at %s radar itself failed, a bug: they were passed over\n", plural(int(i.Bugs), "datagram"))
	}
	if i.Gaps > 0 {
		fmt.Fprintf(a.stderr, "radar: %s that sources have numbered did not come\n", plural(int(i.Gaps), "report"))
	}
	if i.Forgotten > 0 {
		fmt.Fprintf(a.stderr, "radar: the numbers of %s were no longer followed: there are too many (--allow says whom to hear)\n", plural(int(i.Forgotten), "source"))
	}
	a.printFast(i)
	a.printInterface(i)
	if i.Fell > 0 {
		fmt.Fprintf(a.stderr, "radar: %s found the socket full\n", plural(int(i.Fell), "datagram"))
	}
	return nil
}

// printJoins says what became of postcards of switches inside the domain.
func (a *app) printJoins(n *collect.Counts) {
	j := &n.Joins
	if j.Joined > 0 {
		fmt.Fprintf(a.stderr, "radar: %s joined to radar's own stories of %s\n", plural(int(j.Joined), "postcard"), plural(int(j.Packets), "packet"))
	}
	for _, of := range []struct {
		n   uint64
		why string
	}{
		{j.Foreign, "the number in the quote is another packet's, by flow, length or content"},
		{j.Stale, "the number in the quote is of another time"},
		{j.Unproven, "too little of the packet is quoted (28 bytes behind the IP header will do)"},
		{j.OffPath, "the packet did not pass that node: name switches as the domain's nodes (--node ID=NAME)"},
		{j.Ambiguous, "the packet passed that node more than once"},
		{j.Repeated, "the node had said it already"},
		{j.Forgotten, "the ring had newer packets (attach with more --slots)"},
	} {
		if of.n > 0 {
			fmt.Fprintf(a.stderr, "radar: %s not joined to a story: %s\n", plural(int(of.n), "postcard"), of.why)
		}
	}
	if n.Unordered > 0 {
		fmt.Fprintf(a.stderr, "radar: of %s the order of the nodes is not known: the TTLs in the quotes may be radar's (collect for that domain, on its machine)\n", plural(int(n.Unordered), "packet"))
	}
}

// printInterface says what is not to be had of what came by an interface.
func (a *app) printInterface(i *collect.Info) {
	if i.Interface != nil && i.Interface.Parts > 0 {
		fmt.Fprintf(a.stderr, "radar: %s cut, or in fragments, which are not put together\n", plural(int(i.Interface.Parts), "datagram"))
	}
}
