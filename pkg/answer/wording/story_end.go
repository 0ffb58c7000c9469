// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/story"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// longestText says where most of a packet's time went.
func longestText(r *record.Record, p *story.Part) string {
	h := &r.Hops[p.Hop]
	where := ""
	switch p.Place {
	case story.InLink:
		from := r.Hops[p.From].Node + "/" + r.Hops[p.From].Port
		where = fmt.Sprintf("the link %s > %s/%s", from, h.Node, h.InPort)
		if p.WithQueue {
			where += ", with the queue of " + from
		}
	case story.InNode:
		where = "inside " + h.Node
	case story.InQueue:
		where = "in the queue of " + h.Node + "/" + h.Port
	}
	text := fmt.Sprintf("Longest: %s: %s", where, words.Duration(float64(p.Ns)))
	if p.Percent != nil {
		text += fmt.Sprintf(", %d %% of the time", *p.Percent)
	}
	return text + "."
}

// endTexts says what a reader of the steps should know further.
func (t *Teller) endTexts(r *record.Record, s *story.Story) []string {
	var texts []string
	switch r.State {
	case record.InFlight:
		texts = append(texts, "Last seen "+lastSeen(r)+ago(s.Unended)+".")
	case record.Expired:
		texts = append(texts, fmt.Sprintf("Last seen %s%s; not again within the timeout of %v.", lastSeen(r), ago(s.Unended), s.Unended.Timeout))
		texts = append(texts, t.expiredText(r, s.Unended)...)
		if s.Record.Loss != nil && len(s.Now.NotUp) > 0 {
			texts = append(texts, "Not up now: "+t.notUpText(s.Now.NotUp)+".")
		}
	}
	if r.LocalDrop != nil {
		texts = append(texts, "It counts as delivered: the node had it, and dropped it itself.")
	}
	if c := s.Circle; c != nil {
		text := "It went round in a circle: " + loopNodes(r, c)
		if c.TTLUsedUp {
			text += ", " + words.TTLName(r) + " used up"
		}
		texts = append(texts, text+".")
	}
	switch {
	case r.Truncated && s.Circle != nil:
		texts = append(texts, "It went round more often than its record has room for: steps are missing.")
	case r.Truncated:
		texts = append(texts, "Steps are missing: more happened than its record has room for (attach with more ‹max-hops›), or its history was overwritten.")
	}
	if r.Src == "" {
		texts = append(texts, "Its header is not known: the first segment of its train had it, and is overwritten.")
	}
	return texts
}

// notUpText is "h2/eth0 (down), r1/eth1 (no carrier)".
func (t *Teller) notUpText(list []placenow.PortState) string {
	var texts []string
	for _, p := range list {
		texts = append(texts, t.Shown.End(p.Port)+" ("+words.State(p.State)+")")
	}
	return strings.Join(texts, ", ")
}

// loopNodes are the nodes of a circle, "r1 > r2 > r1".
func loopNodes(r *record.Record, c *story.Circle) string {
	var nodes []string
	for _, h := range r.Hops[c.First : c.Again+1] {
		nodes = append(nodes, h.Node)
	}
	return strings.Join(nodes, " > ")
}

// lastSeen is where the last time stamp was taken.
func lastSeen(r *record.Record) string {
	if len(r.Hops) == 0 {
		return "nowhere"
	}
	h := &r.Hops[len(r.Hops)-1]
	switch {
	case h.Port != "":
		return "leaving " + h.Node + " by " + h.Port
	case h.InPort != "":
		return "coming into " + h.Node + " by " + h.InPort
	}
	return "at " + h.Node
}

// ago is how long that is past.
func ago(u *story.Unended) string {
	if u.Ago < 0 {
		return ""
	}
	return ", " + words.Duration(float64(u.Ago)) + " ago"
}

// expiredText says what may have happened where the kernel reports no drop.
func (t *Teller) expiredText(r *record.Record, u *story.Unended) []string {
	if u.Hop < 0 {
		return nil
	}
	h := &r.Hops[u.Hop]
	if r.Moved {
		return []string{"Its address came to " + h.Node + ", or went, at about that time: whether it was delivered there is not known."}
	}
	if h.Port == "" {
		return []string{
			"No drop was reported in " + h.Node + ". It may have been delivered there under another address (REDIRECT, DNAT to the node itself),",
			"taken by a program that reads the interface (a forwarder, a VM) and not sent on, or it waits in a queue of " + h.Node + ".",
		}
	}
	where := "behind " + h.Node + "/" + h.Port
	switch {
	case u.Peer == nil:
	case u.Peer.Bridge:
		where = "between " + h.Node + "/" + h.Port + " and bridge " + t.Shown.End(u.Peer.Name)
	default:
		where = "between " + h.Node + "/" + h.Port + " and " + u.Peer.Name
	}
	return []string{
		"No drop was reported " + where + ". It may have vanished where the kernel reports none: in an XDP program, a VM or a program that reads a tap,",
		"or it still waits in the queue of " + h.Node + "/" + h.Port + " (attach with a longer ‹timeout› than the longest queue).",
	}
}
