// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/answer/fidelity"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

const explainLong = `Say why a flow was slow: one sentence on top, and what speaks for it. Of TCP

  WAITED    what the sender waited for: the network, packets that were lost, the
            receiver's window, or its own application
  PART      what the round trip consists of: links, queues, nodes, and the receiver,
            from data that came to the acknowledgement that left. MEAN is of all round
            trips, SHARE of all of them together; P50 and P99 of those with this part
  WHY       why data was sent again: where the first was lost, or, if it was not, what
            made the sender believe so. -o wide lists each

of UDP its losses and the way. docs/explain.md says how to read it, and by which rules
the cause is chosen.

Where several flows match, or without any argument, it is the flow with
most bytes, and of the next ones the causes are listed. It takes the packets that the
ring remembers, of both directions, also behind NAT.

What the answer lacks and depends on stands first: "as far as is known (...)".

While the connection lives, the kernel's own view stands beside: what the sending socket
has waited for (TCP_INFO), where its node can be entered.

With --exit-code the exit code is 6 if anything held the flow, or too little is known,
and 0 if nothing did.

`

// explainOptions are what "radar explain" was asked.
type explainOptions struct {
	kit.SelectFlags
	exitCode bool
}

// NewExplainCmd returns "radar explain".
func NewExplainCmd(k *kit.Kit) *cobra.Command {
	f := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain " + kit.EndsUse,
		Short: "Say why a flow was slow",
		Long:  explainLong + kit.SelectionHelp,
		Example: `  radar explain                              # the flow with most bytes
  radar explain h1 h2                        # between two nodes
  radar explain 10.0.1.1:4000-10.0.4.2:5201
  radar explain h1-h2:80 --since 1m          # from h1 to port 80 of h2
  radar explain 'tcp port 80' -o wide        # with each retransmission
  radar explain h1 --exit-code               # 0: nothing held it; 6: something did`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, all, err := f.read(cmd, k, args)
			if err != nil {
				return err
			}
			cause := explain.NotEnough
			if err := k.ReadSources(s, func(src *answer.Sources) error {
				return k.RowsFirst(func() (err error) {
					cause, err = explainFlow(k, context.WithoutCancel(cmd.Context()), src, s, all)
					return err
				})
			}); err != nil || !f.exitCode || cause == explain.Nothing {
				return err
			}
			return kit.WithCode(kit.ExitCause, nil)
		},
	}
	f.Add(k, cmd, "only the newest N packets; 0: all")
	cmd.Flags().BoolVar(&f.exitCode, "exit-code", false, "exit with 6 if anything held the flow, or too little is known")
	return cmd
}

// read makes two selections: which flow is meant, and which packets tell about it.
func (f *explainOptions) read(cmd *cobra.Command, k *kit.Kit, args []string) (chosen, all *answer.Selection, err error) {
	if chosen, err = f.Selection(cmd.Flags(), args, k.Now()); err != nil {
		return nil, nil, err
	}
	all, err = ofFlows(chosen) // without Last, which would take other packets than these: choice.within
	return chosen, all, err
}

// ofFlows selects all that tells about flows, in the time of a selection.
func ofFlows(in *answer.Selection) (*answer.Selection, error) {
	all, err := answer.Select(filter.Spec{Proto: "tcp,udp,icmp,icmpv6"})
	if err == nil {
		all.Since, all.Until = in.Since, in.Until
	}
	return all, err
}

// choice is what the flow is chosen of.
type choice struct {
	explain.Candidates
	oldest int64 // when the oldest of these packets was sent, Unix ns; 0: there is none
}

func (c *choice) add(r *record.Record) {
	if c.oldest == 0 || r.TNs < c.oldest {
		c.oldest = r.TNs
	}
	c.Add(r)
}

// within limits all to the time of the packets that were chosen, if those are the newest so many.
func (c *choice) within(chosen, all *answer.Selection) {
	if chosen.Last > 0 {
		all.Since = time.Unix(0, c.oldest)
	}
}

// analyzers makes what follows flows of these sources.
func analyzers(src *answer.Sources, links *placenow.Links) func(explain.Flow) *explain.Analyzer {
	now, leftOver, declares := int64(0), src.LeftOver(), configured(src.Domain(), links)
	if src.Recorded() == nil {
		now = time.Now().UnixNano()
	}
	return func(f explain.Flow) *explain.Analyzer {
		a := explain.New(f)
		a.Configured, a.Place, a.LeftOver, a.Now = declares, places(links), leftOver, now
		a.NoAnswer = func(r *placenow.Request) *placenow.Cause {
			c, _ := links.NoAnswer(r)
			return c
		}
		return a
	}
}

// explainFlow chooses the flow and explains it.
func explainFlow(k *kit.Kit, ctx context.Context, src *answer.Sources, chosen, all *answer.Selection) (explain.Cause, error) {
	if d := src.Domain(); d != nil {
		k.ShowNames(d)
	}
	k.Note(src.Lacks())
	var found choice
	notes, err := src.Records(ctx, chosen, func(r *record.Record) error {
		found.add(r)
		return nil
	})
	if err != nil {
		return "", err
	}
	list := found.List()
	if len(list) == 0 {
		k.Note(notes)
		return "", fmt.Errorf("no such traffic: no packet of TCP or UDP matches (radar flows lists what there is)")
	}
	if found.Full > 0 {
		k.Notef("there are more flows than there is room for: %s of the smallest are left out. Name the flow, or narrow down the time, to be sure which one it is", words.Plural(int(found.Full), "packet"))
	}
	found.within(chosen, all)
	links := src.LinksNow(ctx)
	begin, followed := analyzers(src, links), []*explain.Analyzer(nil)
	for _, c := range list[:min(len(list), maxOthers+1)] {
		followed = append(followed, begin(c.Flow))
	}
	notes, err = src.Records(ctx, all, func(r *record.Record) error {
		for _, a := range followed {
			a.Add(r)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	ans, ok := followed[0].Finish()
	if !ok { // it was overwritten meanwhile
		k.Note(notes)
		return "", fmt.Errorf("no such traffic: the ring has overwritten the packets of the flow: attach with more --slots")
	}
	if ans.Proto == "tcp" {
		ans.Kernel = answer.KernelView(ctx, links, ans.Sender, ans.Names)
	}
	ans.Summary = wording.Explained(ans)
	for i, a := range followed[1:] {
		if other, ok := a.Finish(); ok {
			ans.Others = append(ans.Others, explain.Other{Flow: list[i+1].Text(), Proto: other.Proto, Packets: list[i+1].Packets,
				Cause: other.Cause, Place: other.Place, Summary: wording.Explained(other)})
		}
	}
	if err := printExplained(k, ans, list); err != nil {
		return "", err
	}
	for _, text := range wording.Lacks(ans.Lacks) {
		k.Notef("%s", text)
	}
	k.Note(append(notes, answer.SilentNodes(links)...))
	return ans.Cause, nil
}

// places tells what is known now of places of losses, as "radar loss" does.
func places(links *placenow.Links) func(*explain.LossRow, aggregate.Flow, uint64) placenow.Place {
	return func(l *explain.LossRow, of aggregate.Flow, bytes uint64) (now placenow.Place) {
		p := l.LossPlace()
		if l.AfterDelivery {
			now = links.Inside(p)
		} else {
			now = links.At(p, []string{of.Dst}, bytes)
		}
		now.Causes = links.Causes(p, []aggregate.Flow{of}, bytes)
		return now
	}
}

// configured tells what is configured now at ports, nil: nobody can say. It asks each node once. Packets were measured
// before: it need not have been so then.
func configured(d *domain.Domain, links *placenow.Links) func(port string) explain.Configured {
	if d == nil || links == nil {
		return nil
	}
	nodes := make(map[string]map[string]fidelity.Port)
	return func(name string) explain.Configured {
		node, port, _ := strings.Cut(name, "/")
		if _, known := nodes[node]; !known {
			nodes[node] = fidelity.OfNode(links, d, node)
		}
		now := nodes[node][port]
		rate := now.Rate
		if now.Netem != nil && rate == 0 {
			rate = now.Netem.Rate
		}
		return explain.Configured{Kind: now.Root, RateBps: uint64(rate), BurstBytes: uint64(now.Burst), Holds: now.Holds,
			LimitPackets: uint64(now.LimitPackets), LimitBytes: uint64(now.LimitBytes)}
	}
}
