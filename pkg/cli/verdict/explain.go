// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/answer/fidelity"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/record"
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

FLOW is ADDRESS:PORT-ADDRESS:PORT, in either direction; an address may be a node's
name, and a port may be left out. Without one, and with flags or an expression that
several flows match, it is the flow with most bytes, and the others are listed. It
takes the packets that the ring remembers, of both directions, also behind NAT.

`

// explainOptions are what "radar explain" was asked.
type explainOptions struct {
	kit.SelectFlags
}

// NewExplainCmd returns "radar explain".
func NewExplainCmd(k *kit.Kit) *cobra.Command {
	f := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain [FLOW | EXPRESSION]",
		Short: "Say why a flow was slow",
		Long:  explainLong + kit.SelectionHelp,
		Example: `  radar explain                              # the flow with most bytes
  radar explain 10.0.1.1:4000-10.0.4.2:5201
  radar explain h1-h2:80 --since 1m          # from h1 to port 80 of h2
  radar explain 'tcp port 80' -o wide        # with each retransmission`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, all, err := f.read(cmd, k, args)
			if err != nil {
				return err
			}
			return k.ReadSources(s, func(src *answer.Sources) error {
				return k.RowsFirst(func() error { return explainFlow(k, context.WithoutCancel(cmd.Context()), src, s, all) })
			})
		},
	}
	f.Add(k, cmd, "only the newest N packets; 0: all")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeFlow(k, typed)
	}
	return cmd
}

// completeFlow completes the names of nodes on both sides of the "-".
func completeFlow(k *kit.Kit, typed string) (list []cobra.Completion, directive cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, "-")+1]
	for _, node := range k.NodesExcept(nil, true) {
		list = append(list, before+node)
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// read makes two selections: which flow is meant, and which packets tell about it.
func (f *explainOptions) read(cmd *cobra.Command, k *kit.Kit, args []string) (chosen, all *answer.Selection, err error) {
	if len(args) == 1 {
		if src, dst, ok := splitFlow(args[0]); ok {
			if chosen, err = f.ofFlow(cmd, k, src, dst); err != nil {
				return nil, nil, err
			}
			args = nil
		}
	}
	flags, err := f.Selection(cmd.Flags(), args, k.Now())
	if err != nil {
		return nil, nil, err
	}
	if chosen == nil {
		chosen = flags
	}
	all, err = answer.Select(filter.Spec{Proto: "tcp,udp,icmp,icmpv6"})
	if err != nil {
		return nil, nil, err
	}
	for _, s := range []*answer.Selection{chosen, all} {
		s.Since, s.Until = flags.Since, flags.Until
	}
	chosen.Last = flags.Last // all would take other packets than these: choice.within
	return chosen, all, nil
}

// end is one side of FLOW.
type end struct{ addr, port string }

// splitFlow reads FLOW. False: it is none, but an expression.
func splitFlow(text string) (src, dst end, ok bool) {
	for _, separator := range []string{"-", ">"} {
		// A node's name can have the sign in it: any of them may be the one between.
		for i := range text {
			if !strings.HasPrefix(text[i:], separator) {
				continue
			}
			src, srcOK := splitEnd(strings.TrimSpace(text[:i]))
			dst, dstOK := splitEnd(strings.TrimSpace(text[i+len(separator):]))
			if srcOK && dstOK && (src.port != "" || dst.port != "" || isAddr(src.addr) && isAddr(dst.addr) || !strings.ContainsAny(text, " ")) {
				return src, dst, true
			}
		}
	}
	return end{}, end{}, false
}

func isAddr(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// splitEnd reads ADDRESS:PORT, [ADDRESS]:PORT, NODE:PORT, or one of these without a port.
func splitEnd(text string) (e end, ok bool) {
	if isAddr(text) {
		return end{addr: text}, true
	}
	addr := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		if _, err := strconv.ParseUint(text[i+1:], 10, 16); err != nil {
			return end{}, false
		}
		addr, e.port = text[:i], text[i+1:]
	}
	if inner, cut := strings.CutPrefix(addr, "["); cut {
		e.addr = strings.TrimSuffix(inner, "]")
		return e, isAddr(e.addr)
	}
	e.addr = addr
	return e, addr != "" && !strings.ContainsAny(addr, " :[]()")
}

// ofFlow selects the packets of FLOW, in either direction: the one that most were sent in may be the other.
func (f *explainOptions) ofFlow(cmd *cobra.Command, k *kit.Kit, src, dst end) (*answer.Selection, error) {
	for _, name := range []string{"src", "dst", "sport", "dport"} {
		if cmd.Flags().Changed(name) {
			return nil, fault.Usage.Errorf("FLOW beside --%s: give one of them", name)
		}
	}
	spec := filter.Spec{Proto: "tcp,udp", Sport: src.port, Dport: dst.port}
	for _, side := range []struct {
		to   *string
		addr string
	}{{&spec.Src, src.addr}, {&spec.Dst, dst.addr}} {
		list, err := k.AddressesOf("FLOW", []string{side.addr})
		if err != nil {
			return nil, err
		}
		*side.to = strings.Join(list, ",")
	}
	s, err := answer.Select(spec)
	if err != nil {
		return nil, fault.Usage.Errorf("FLOW: %w", err)
	}
	return s, nil
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

// explainFlow chooses the flow and explains it.
func explainFlow(k *kit.Kit, ctx context.Context, src *answer.Sources, chosen, all *answer.Selection) error {
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
		return err
	}
	list := found.List()
	if len(list) == 0 {
		k.Note(notes)
		return fmt.Errorf("no such traffic: no packet of TCP or UDP matches (radar flows lists what there is)")
	}
	if found.Full > 0 {
		k.Notef("there are more flows than there is room for: %s of the smallest are left out. Name the flow, or narrow down the time, to be sure which one it is", words.Plural(int(found.Full), "packet"))
	}
	found.within(chosen, all)
	a := explain.New(list[0].Flow)
	a.Configured = configured(src)
	a.LeftOver = src.LeftOver()
	if src.Recorded() == nil {
		a.Now = time.Now().UnixNano()
	}
	notes, err = src.Records(ctx, all, func(r *record.Record) error {
		a.Add(r)
		return nil
	})
	if err != nil {
		return err
	}
	ans, ok := a.Finish()
	if !ok { // it was overwritten meanwhile
		k.Note(notes)
		return fmt.Errorf("no such traffic: the ring has overwritten the packets of the flow: attach with more --slots")
	}
	ans.Summary = words.Explained(ans)
	if err := printExplained(k, ans, list); err != nil {
		return err
	}
	for _, text := range words.Lacks(ans.Lacks) {
		k.Notef("%s", text)
	}
	k.Note(notes)
	return nil
}

// configured tells what is configured now at ports, nil: nobody can say. It asks each node once. Packets were measured
// before: it need not have been so then.
func configured(src *answer.Sources) func(port string) explain.Configured {
	d := src.Domain()
	if d == nil || src.Recorded() != nil {
		return nil
	}
	nodes := make(map[string]map[string]fidelity.Port)
	return func(name string) explain.Configured {
		node, port, _ := strings.Cut(name, "/")
		if _, known := nodes[node]; !known {
			nodes[node] = fidelity.OfNode(d, node)
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
