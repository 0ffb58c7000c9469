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
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
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

FLOW is ADDRESS:PORT-ADDRESS:PORT, in either direction; an address may be a node's
name, and a port may be left out. END END is the same with a space. One END alone is
all its flows. Where several flows match, or without any argument, it is the flow with
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
		Use:   "explain [FLOW | END [END] | EXPRESSION]",
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
	if chosen, err = f.ofEnds(cmd, k, args); err != nil {
		return nil, nil, err
	}
	if chosen != nil {
		args = nil
	}
	flags, err := f.Selection(cmd.Flags(), args, k.Now())
	if err != nil {
		return nil, nil, err
	}
	if chosen == nil {
		chosen = flags
	}
	if all, err = ofFlows(flags); err != nil {
		return nil, nil, err
	}
	chosen.Since, chosen.Until = flags.Since, flags.Until
	chosen.Last = flags.Last // all would take other packets than these: choice.within
	return chosen, all, nil
}

// ofFlows selects all that tells about flows, in the time of a selection.
func ofFlows(in *answer.Selection) (*answer.Selection, error) {
	all, err := answer.Select(filter.Spec{Proto: "tcp,udp,icmp,icmpv6"})
	if err == nil {
		all.Since, all.Until = in.Since, in.Until
	}
	return all, err
}

// ofEnds selects by arguments that name ends; nil: they are an expression, or there are none.
func (f *explainOptions) ofEnds(cmd *cobra.Command, k *kit.Kit, args []string) (*answer.Selection, error) {
	switch len(args) {
	case 1:
		if src, dst, ok := splitFlow(args[0]); ok {
			return f.ofFlow(cmd, k, src, dst)
		}
		if one, ok := splitEnd(args[0]); ok && isEnd(k, one) {
			return f.ofEnd(cmd, k, one)
		}
	case 2:
		src, srcOK := splitEnd(args[0])
		dst, dstOK := splitEnd(args[1])
		if srcOK && dstOK && (isEnd(k, src) || isEnd(k, dst)) {
			return f.ofPair(cmd, k, src, dst)
		}
	}
	return nil, nil
}

// isEnd reports whether it is an address, or a node has that name.
func isEnd(k *kit.Kit, e end) bool {
	if isAddr(e.addr) {
		return true
	}
	_, err := k.AddressesOf("END", []string{e.addr})
	return err == nil
}

// hosts is an expression for packets of the end, in the role of src, dst or host.
func hosts(k *kit.Kit, role string, e end) (string, error) {
	list, err := k.AddressesOf("END", []string{e.addr})
	if err != nil {
		return "", err
	}
	for i := range list {
		list[i] = role + " " + list[i]
	}
	text := "(" + strings.Join(list, " or ") + ")"
	port := strings.TrimPrefix(role+" port", "host ")
	if e.port != "" {
		text += " and " + port + " " + e.port
	}
	return "(" + text + ")", nil
}

// ofEnd selects packets to and from one end.
func (f *explainOptions) ofEnd(cmd *cobra.Command, k *kit.Kit, e end) (*answer.Selection, error) {
	text, err := hosts(k, "host", e)
	if err != nil {
		return nil, err
	}
	return f.byText(cmd, text)
}

// ofPair selects packets between two ends, in both directions.
func (f *explainOptions) ofPair(cmd *cobra.Command, k *kit.Kit, x, y end) (*answer.Selection, error) {
	var ways []string
	for _, way := range [][2]end{{x, y}, {y, x}} {
		from, err := hosts(k, "src", way[0])
		if err != nil {
			return nil, err
		}
		to, err := hosts(k, "dst", way[1])
		if err != nil {
			return nil, err
		}
		ways = append(ways, from+" and "+to)
	}
	return f.byText(cmd, "("+strings.Join(ways, ") or (")+")")
}

// byText selects TCP and UDP by an expression.
func (f *explainOptions) byText(cmd *cobra.Command, text string) (*answer.Selection, error) {
	for _, name := range []string{"src", "dst", "sport", "dport"} {
		if cmd.Flags().Changed(name) {
			return nil, fault.Usage.Errorf("END beside --%s: give one of them", name)
		}
	}
	s, err := answer.Select(filter.Spec{Proto: "tcp,udp"})
	if err != nil {
		return nil, err
	}
	if err := s.Narrow(text); err != nil {
		return nil, fault.Usage.Errorf("END: %w", err)
	}
	return s, nil
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

// analyzers makes what follows flows of these sources.
func analyzers(src *answer.Sources, links *placenow.Links) func(explain.Flow) *explain.Analyzer {
	now, leftOver, declares := int64(0), src.LeftOver(), configured(src.Domain(), links)
	if src.Recorded() == nil {
		now = time.Now().UnixNano()
	}
	return func(f explain.Flow) *explain.Analyzer {
		a := explain.New(f)
		a.Configured, a.LeftOver, a.Now = declares, leftOver, now
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
	ans.Summary = words.Explained(ans)
	for i, a := range followed[1:] {
		if other, ok := a.Finish(); ok {
			ans.Others = append(ans.Others, explain.Other{Flow: list[i+1].Text(), Proto: other.Proto, Packets: list[i+1].Packets,
				Cause: other.Cause, Place: other.Place, Summary: words.Explained(other)})
		}
	}
	if err := printExplained(k, ans, list); err != nil {
		return "", err
	}
	for _, text := range words.Lacks(ans.Lacks) {
		k.Notef("%s", text)
	}
	k.Note(append(notes, answer.SilentNodes(links)...))
	return ans.Cause, nil
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
