// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/vnet/inspect"
	"github.com/vnetradar/radar/pkg/words"
)

// instead are the kinds of causes that say better what the kernel's reason says.
var instead = map[placenow.CauseKind]bool{
	placenow.NotForwarding: true, placenow.NotItsAddress: true, placenow.HairpinOff: true, placenow.PortIsolated: true,
	placenow.PortBlocked: true, placenow.NoMember: true, placenow.EgressMTU: true, placenow.RouteForbids: true,
	placenow.WrongFarEnd: true,
}

// Cause says why, as a node says now.
func (s *Names) Cause(c *placenow.Cause) string {
	for _, of := range []func(*placenow.Cause) string{s.routeCause, s.bridgeCause, s.neighbourCause, s.answerCause} {
		if text := of(c); text != "" {
			return text
		}
	}
	return string(c.Kind)
}

// causes are what is known now of why packets were lost at a place; own reports whether that says it all.
func (s *Names) causes(now *placenow.Place) (text string, own bool) {
	var texts []string
	for i := range now.Causes {
		texts = append(texts, s.Cause(&now.Causes[i]))
		own = own || instead[now.Causes[i].Kind]
	}
	return strings.Join(texts, "; "), own
}

func (s *Names) routeCause(c *placenow.Cause) string {
	has := ""
	if c.Other != "" {
		has = fmt.Sprintf("; %s has it", c.Other)
	}
	switch c.Kind {
	case placenow.NotForwarding:
		return fmt.Sprintf("%s does not forward (%s), and %s is not its address%s", c.Node, c.Setting, c.Address, has)
	case placenow.NotItsAddress:
		return fmt.Sprintf("%s is not an address of %s%s", c.Address, c.Node, has)
	case placenow.NoRouteBack:
		return fmt.Sprintf("%s has no route to %s", c.Node, c.Address)
	case placenow.NoDefaultRoute:
		return fmt.Sprintf("%s has no route to %s, and no default route", c.Node, c.Address)
	case placenow.RouteForbids:
		return fmt.Sprintf("%s's route to %s is: %s", c.Node, c.Address, c.State)
	case placenow.WayBack:
		return fmt.Sprintf("%s's way back to %s is %s", c.Node, c.Address, s.End(c.Port))
	case placenow.EgressMTU:
		return fmt.Sprintf("too big (MTU): %s has %d", s.End(c.Port), c.MTU)
	}
	return ""
}

func (s *Names) bridgeCause(c *placenow.Cause) string {
	port := s.End(c.Port)
	switch c.Kind {
	case placenow.HairpinOff:
		return fmt.Sprintf("it would leave by the port that it came in by: hairpin is off at %s", port)
	case placenow.PortIsolated:
		return fmt.Sprintf("%s and %s are isolated: they do not reach each other", port, s.End(c.Other))
	case placenow.PortBlocked:
		return fmt.Sprintf("%s is %s (STP): it does not forward now", port, c.State)
	case placenow.WrongFarEnd:
		return fmt.Sprintf("%s sends frames for %s to this node (%s), but %s has it", port, c.Address, c.Setting, c.Other)
	case placenow.NoMember:
		return fmt.Sprintf("no port of %s has joined the group %s (multicast snooping)", port, c.Address)
	case placenow.BridgedRules:
		return fmt.Sprintf("frames that %s passes on go through %s's rules (%s)", port, c.Node, c.Setting)
	}
	return ""
}

func (s *Names) neighbourCause(c *placenow.Cause) string {
	port := s.End(c.Port)
	switch c.Kind {
	case placenow.NoNeighbour:
		return fmt.Sprintf("no node of the domain has %s", c.Address)
	case placenow.ARPRefused:
		other := "elsewhere"
		if c.Other != "" {
			other = s.End(c.Other)
		}
		return fmt.Sprintf("%s answers no ARP of %s by %s: its way back is %s (rp_filter)", c.Node, c.Address, port, other)
	case placenow.MacvlanParent:
		return fmt.Sprintf("%s is a %s of %s: the two do not reach each other", port, c.State, s.End(c.Other))
	case placenow.AddressUnusable:
		if c.State == string(inspect.DADFailed) {
			return fmt.Sprintf("%s at %s is a duplicate (dadfailed): %s does not use it", c.Address, port, c.Node)
		}
		return fmt.Sprintf("%s at %s is tentative (duplicate address detection): %s does not use it yet", c.Address, port, c.Node)
	}
	return ""
}

func (s *Names) answerCause(c *placenow.Cause) string {
	switch c.Kind {
	case placenow.EchoIgnored:
		return fmt.Sprintf("%s is set to answer no echo (%s)", c.Node, c.Setting)
	case placenow.ListensOn:
		return fmt.Sprintf("a socket of that port listens on %s alone", c.Address)
	case placenow.QueueFull:
		return "the listening socket's queue is full: nobody accepts connections"
	case placenow.NotAttached:
		return fmt.Sprintf("%s answers by %s, which is not attached", c.Node, s.End(c.Port))
	case placenow.ByRule:
		text := strings.Join(c.Rules, ", ")
		if c.More > 0 {
			text += fmt.Sprintf(", %d more", c.More)
		}
		if len(c.Rules) == 1 && c.More == 0 {
			return text
		}
		return "one of: " + text
	case placenow.OtherZone:
		return fmt.Sprintf("%s's conntrack has connections that they answer in a zone (%s), without an answer. Rules may take them for new, or invalid: check which packets get that zone", c.Node, c.Setting)
	case placenow.NoTranslation:
		return fmt.Sprintf("%s has no translation for it (any more): connections of it with %s were translated", c.Node, c.Address)
	}
	return ""
}

// replyNote has words for what became of answers.
func (w Sentences) replyNote(n note.Note) (key, text string) {
	switch n := n.(type) {
	case note.Unanswered: // with -f once for each flow and cause
		text = unansweredText(&n)
		key, _, _ = strings.Cut(text, " (")
		return key, text
	case note.AnswersElsewhere:
		return "elsewhere " + n.Flow.String(), fmt.Sprintf("answers of %s to %s go another way than the questions (asymmetric: %s, answers %s), and %s lost there",
			n.Dst, n.Src, n.Path, n.Back, words.PacketsWere(n.Lost))
	case note.NotTranslated:
		who := "a node on the way"
		if len(n.Between) > 0 {
			who = strings.Join(n.Between, " or ")
		}
		return "translation " + n.Flow.String(), fmt.Sprintf("an answer of %s came to %s untranslated, from %s (%s did not translate it back: conntrack took it for invalid, or had no entry any more), and %s sent %s back there",
			n.Dst, n.Src, n.End, who, n.Src, words.Plural(int(n.Packets), "packet"))
	case note.ErrorsLimited:
		return "limited " + n.Node, fmt.Sprintf("%s answered not all of the %s whose TTL was used up: its ICMP errors are limited (icmp_ratelimit): %d sent, %d held back since attach",
			n.Node, words.Plural(int(n.Packets), "packet"), n.Sent, n.Held)
	case note.AddressesUnusable:
		text = unusableText(n.List)
		return text, text
	case note.NoRouteOut:
		text = fmt.Sprintf("%s has no route for IPv%d packets that its programs sent (%s since attach, by its own counter)", n.Node, n.Version, words.Decimal(n.Packets))
		if n.NoDefault {
			text += ", and no default route"
		}
		key, _, _ = strings.Cut(text, " (")
		return key, text
	}
	return "", ""
}

// unansweredText is "b sent no answer to 10.1.0.1 (3 icmp echo requests were delivered): b has no route to 10.1.0.1".
func unansweredText(n *note.Unanswered) string {
	what := n.Proto + " packets"
	switch {
	case n.ICMPID != nil:
		what = "echo requests"
	case n.Port >= 0:
		what = fmt.Sprintf("%s packets to port %d", n.Proto, n.Port)
	}
	text := fmt.Sprintf("%s sent no answer to %s (%d %s delivered)", n.Node, n.From, n.Requests, what)
	switch {
	case n.Cause != nil:
		return text + ": " + (*Names)(nil).Cause(n.Cause)
	case n.OtherSource.IsValid():
		return text + fmt.Sprintf(" from %s: it answers from %s", n.To, n.OtherSource)
	}
	return text
}

func unusableText(list []placenow.Cause) string {
	var texts []string
	for i := range list {
		if i == maxNotUp {
			texts = append(texts, fmt.Sprintf("%d more", len(list)-i))
			break
		}
		texts = append(texts, (*Names)(nil).Cause(&list[i]))
	}
	return "addresses that are not used: " + strings.Join(texts, "; ")
}
