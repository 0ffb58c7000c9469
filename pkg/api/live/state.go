// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/steer"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Event is something that happened to a domain.
type Event struct {
	TNs  int64  `json:"t_ns"`
	Kind string `json:"kind" doc:"attached, detached, agent_started, agent_ended, node_came, node_went, or what the INT service says: device, intent, service"`
	Text string `json:"text"`
}

// state is what was known of a domain when it was looked at last.
type state struct {
	known bool
	epoch uint32 // 0: not attached
	agent bool
	nodes []string
}

func (f *Feed) look() (s state) {
	s.known = true
	if f.ring == nil {
		return s
	}
	d := f.ring.Domain
	s.epoch = d.Epoch
	process, err := agent.Find(d.Name)
	s.agent = err != nil && f.state.agent || err == nil && process.PID != 0
	for _, n := range answer.Nodes(d) {
		s.nodes = append(s.nodes, n.Name)
	}
	return s
}

// tell sends events about what is not as it was.
func (f *Feed) tell(streams []*Stream, now time.Time) {
	was := f.state
	f.state = f.look()
	list := f.steering(was.known)
	if was.known {
		list = append(list, was.changes(f.state, f.name)...)
	}
	for _, e := range list {
		if e.TNs == 0 {
			e.TNs = now.UnixNano()
		}
		e.Text = f.of.face.Render(e.Text)
		data := encode(e)
		for _, s := range streams {
			s.Hub.Send(TopicEvent, Topics[TopicEvent], data)
		}
	}
}

// steering are the events of the INT service since the last call. tell is false at the first: those were before.
func (f *Feed) steering(tell bool) (list []Event) {
	m, err := steer.Open(f.name)
	if err != nil {
		return nil
	}
	events, err := m.Events(f.steered)
	if err != nil {
		return nil // who asks for them is told why
	}
	for _, e := range events {
		f.steered = max(f.steered, e.Number)
		if tell {
			list = append(list, Event{TNs: e.Time.UnixNano(), Kind: e.Kind, Text: e.Text})
		}
	}
	return list
}

// changes are the events that lead from one state to the next.
func (s state) changes(next state, name string) (list []Event) {
	say := func(kind, format string, args ...any) {
		list = append(list, Event{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	if s.epoch != 0 && next.epoch != s.epoch {
		say("detached", "domain %s was detached: attach nodes with: %s", name, domain.Kind.HowToAttach(name))
	}
	if next.epoch != 0 && next.epoch != s.epoch {
		say("attached", "domain %s was attached: %d nodes", name, len(next.nodes))
		return list
	}
	if next.epoch == 0 {
		return list
	}
	switch {
	case s.agent && !next.agent:
		say("agent_ended", "the agent of domain %s has ended", name)
	case !s.agent && next.agent:
		say("agent_started", "the agent of domain %s runs", name)
	}
	for _, n := range next.nodes {
		if !slices.Contains(s.nodes, n) {
			say("node_came", "node %s came", n)
		}
	}
	for _, n := range s.nodes {
		if !slices.Contains(next.nodes, n) {
			say("node_went", "node %s went", n)
		}
	}
	return list
}

// notes say why nothing more may be measured, and how to go on.
func (f *Feed) notes(now time.Time) (list []Note) {
	w := wording.Sentences{Location: time.Local, Now: now, Face: f.of.face}
	for _, n := range answer.DomainNotes(f.name) {
		switch n.(type) {
		case note.NoNodes, note.NoAgent, note.AgentFails, note.DiskFull:
			_, text := w.Note(n)
			list = append(list, Note{n.Kind(), text})
		}
	}
	return list
}

func streamKey(o Options) string {
	return strconv.Itoa(o.Rate) + " " + strconv.FormatBool(o.Losses) + " " + o.Key
}
