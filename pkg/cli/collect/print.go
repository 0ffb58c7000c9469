// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/words"
)

// tally is a number of things that is worth a line, if it is not 0.
type tally struct {
	n    uint64
	unit string
	line string // with %s for the number and the unit
}

// say prints those that are not 0.
func say(k *kit.Kit, tallies ...tally) {
	for _, t := range tallies {
		if t.n > 0 {
			fmt.Fprintf(k.Stderr, "radar: "+t.line+"\n", words.Plural(int(t.n), t.unit))
		}
	}
}

// printCollected says what became of everything that came.
func printCollected(k *kit.Kit, f *options, i *collect.Info) error {
	if k.Output == kit.FormatJSON && f.show.Value == "" && !f.out.stdout() {
		return kit.PrintJSON(k.Out, i)
	}
	n, m := &i.Counts, &i.Metrics
	fmt.Fprintf(k.Stderr, "radar: %s, %d of them no report; %s, %d of them without an event; %s kept\n",
		words.Plural(int(n.Packets), "datagram"), n.Rejected, words.Plural(int(n.Reports), "report"), m.Unchanged, words.Plural(int(n.Records), "packet"))
	say(k,
		tally{n.NoPacket, "report", "%s about no packet"},
		tally{m.Full, "value", "%s had no room in the tables of metrics (--flows, --series)"},
		tally{m.Replaced, "node", "%s of flows went for others: a flow has room for 64"},
		tally{m.NoNode, "hop", "%s without the node's id: in no metric of nodes"},
		tally{n.Anomalous, "datagram", "%s with anomalies (radar int decode -r shows what)"},
	)
	printJoins(k, n)
	say(k,
		tally{n.UnmatchedPostcards, "packet", "of %s one node alone has reported"},
		tally{n.ClockFaults, "time", "%s between nodes of one clock cannot be: do they share it? (--source ...,clock=shared, time=)"},
		tally{n.Untimed, "report", "%s without a time: when they came was taken"},
		tally{n.NoArrival, "hop", "at %s the time of arrival was lost: it is 0. There is no hop latency"},
		tally{n.Skewed, "report", "the time of %s is further than --max-skew from when they came, which was taken: is the source's clock set, and its unit right (--source ...,time=)?"},
	)
	if i.NotKept+i.Unsaved > 0 {
		fmt.Fprintf(k.Stderr, "radar: the disk was full: %s not kept, %s failed\n", words.Plural(int(i.NotKept), "datagram"), words.Plural(int(i.Unsaved), "write"))
	}
	say(k,
		tally{i.LeftOut, "value", "there is no room for %s that radar int metrics could show (--keep-metrics)"},
		tally{i.Refused, "datagram", "%s refused: of sources that are not among those of --allow"},
		tally{i.Bugs, "datagram", "at %s radar itself failed, a bug: they were passed over"},
		tally{i.Gaps, "report", "%s that sources have numbered did not come"},
		tally{i.Forgotten, "source", "the numbers of %s were no longer followed: there are too many (--allow says whom to hear)"},
	)
	printFast(k, i)
	if i.Interface != nil {
		say(k, tally{i.Interface.Parts, "datagram", "%s cut, or in fragments, which are not put together"})
	}
	say(k, tally{i.SocketDrops, "datagram", "%s dropped: the socket buffer was full"})
	return nil
}

// printJoins says what became of postcards of switches inside the domain.
func printJoins(k *kit.Kit, n *collect.Counts) {
	j := &n.Joins
	if j.Joined > 0 {
		fmt.Fprintf(k.Stderr, "radar: %s joined to radar's own stories of %s\n", words.Plural(int(j.Joined), "postcard"), words.Plural(int(j.Packets), "packet"))
	}
	const not = "%s not joined to a story: "
	say(k,
		tally{j.Foreign, "postcard", not + "the number in the quote is another packet's, by flow, length or content"},
		tally{j.Stale, "postcard", not + "the number in the quote is of another time"},
		tally{j.Unproven, "postcard", not + "too little of the packet is quoted (28 bytes behind the IP header will do)"},
		tally{j.OffPath, "postcard", not + "the packet did not pass that node: name switches as the domain's nodes (--node ID=NAME)"},
		tally{j.Ambiguous, "postcard", not + "the packet passed that node more than once"},
		tally{j.Repeated, "postcard", not + "the node had said it already"},
		tally{j.Forgotten, "postcard", not + "the ring had newer packets (attach with more --slots)"},
		tally{n.Unordered, "packet", "of %s the order of the nodes is not known: the TTLs in the quotes may be radar's (collect for that domain, on its machine)"},
	)
}
