// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/words"
	"github.com/vnetradar/radar/pkg/record"
)

// part is where most of a packet's time went.
type part struct {
	hop  int // index; -1: not known, or not worth saying
	text string
}

// slowestPart finds the longest of all links, queues and nodes. With fewer than two there is
// nothing to compare.
func slowestPart(r *record.Record) part {
	longest, total, count, tree := int64(0), int64(0), 0, false
	best := part{hop: -1}
	consider := func(ns *int64, hop int, text string) {
		if ns == nil {
			return
		}
		count, total = count+1, total+*ns
		if *ns > longest {
			longest, best = *ns, part{hop, text}
		}
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		tree = tree || h.Prev != nil
		if prev := r.PrevOf(i); prev >= 0 {
			from := r.Hops[prev].Node + "/" + r.Hops[prev].Port
			link := fmt.Sprintf("the link %s > %s/%s", from, h.Node, h.InPort)
			if r.Hops[prev].QueueNs == nil {
				link += ", with the queue of " + from
			}
			consider(h.LinkNs, i, link)
		}
		consider(h.NodeNs, i, "inside "+h.Node)
		consider(h.QueueNs, i, "in the queue of "+h.Node+"/"+h.Port)
	}
	if count < 2 || total == 0 {
		return part{hop: -1}
	}
	best.text = fmt.Sprintf("Longest: %s: %s", best.text, words.Duration(float64(longest)))
	if !tree { // branches go on at the same time
		best.text += fmt.Sprintf(", %d %% of the time", longest*100/total)
	}
	best.text += "."
	return best
}

// endTexts says what a reader of the steps should know further.
func (t *teller) endTexts(r *record.Record) []string {
	var texts []string
	switch r.State {
	case record.InFlight:
		texts = append(texts, "Last seen "+lastSeen(r)+t.ago(r)+".")
	case record.Expired:
		texts = append(texts, fmt.Sprintf("Last seen %s%s; not again within the timeout of %v.", lastSeen(r), t.ago(r), t.domain.Options.Timeout))
		texts = append(texts, t.expiredText(r)...)
	}
	if r.LocalDrop != nil {
		texts = append(texts, "It counts as delivered: the node had it, and dropped it itself.")
	}
	if first, again, ok := r.Loop(); ok {
		texts = append(texts, "It went round in a circle: "+loopNodes(r, first, again)+words.TTLEnd(r)+".")
	}
	if r.Truncated {
		texts = append(texts, "Steps are missing: more happened than its record has room for (attach with more --max-hops), or its history was overwritten.")
	}
	if r.Src == "" {
		texts = append(texts, "Its header is not known: the first segment of its train had it, and is overwritten.")
	}
	return texts
}

// loopNodes are the nodes of a circle, "r1 > r2 > r1".
func loopNodes(r *record.Record, first, again int) string {
	var nodes []string
	for _, h := range r.Hops[first : again+1] {
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
func (t *teller) ago(r *record.Record) string {
	at := r.TNs
	if n := len(r.Hops); n > 0 && r.Hops[n-1].AtNs != nil {
		at += *r.Hops[n-1].AtNs
	}
	d := t.now.Sub(time.Unix(0, at))
	if d < 0 {
		return ""
	}
	return ", " + words.Duration(float64(d)) + " ago"
}

// expiredText says what may have happened where the kernel reports no drop.
func (t *teller) expiredText(r *record.Record) []string {
	if len(r.Hops) == 0 {
		return nil
	}
	h := &r.Hops[len(r.Hops)-1]
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
	if peer := t.peerOf(h); peer != "" {
		where = "between " + h.Node + "/" + h.Port + " and " + peer
	}
	return []string{
		"No drop was reported " + where + ". It may have vanished where the kernel reports none: in an XDP program, a VM or a program that reads a tap,",
		"or it still waits in the queue of " + h.Node + "/" + h.Port + " (attach with a longer --timeout than the longest queue).",
	}
}

// peerOf names the port at the other end of the one that a hop left by.
func (t *teller) peerOf(h *record.Hop) string {
	for i := range t.domain.Ports {
		p := &t.domain.Ports[i]
		node := t.domain.NodeByID(p.Node)
		if int(p.Node) != h.NodeID || p.Removed || node == nil || t.shown.Port(node.Name, p.Name) != h.Port {
			continue
		}
		if p.Link != "" {
			return "bridge " + t.shown.End(p.Link)
		}
		return answer.PeerName(t.domain, p.Peer)
	}
	return ""
}
