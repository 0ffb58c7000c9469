// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Topics of events.
const (
	TopicPacket uint8 = iota
	TopicLoss
	TopicLoad
	TopicEvent
)

// Topics are their names, which are those of the events too.
var Topics = []string{"packet", "loss", "load", "event"}

const (
	// LossRate is how many lost packets are sent a second without leaving out any.
	LossRate = 500
	// streamEvents are kept for listeners of one stream that are behind, or come back.
	streamEvents = 4096
	linger       = 10 * time.Second // for who comes back
)

// Stream is what some listeners get: packets of one selection, at one rate.
type Stream struct {
	Hub *api.Hub

	selection *answer.Selection
	packets   *sampler
	losses    *sampler // nil: lost packets are among packets

	// The Feed's, under its lock.
	key       string
	listeners map[*listener]struct{}
	idle      time.Time // since when there is none
}

// listener is one of a stream's.
type listener struct{ client api.Client }

// clients are those who listen to a stream.
func (s *Stream) clients() map[api.Client]bool {
	list := make(map[api.Client]bool)
	for l := range s.listeners {
		list[l.client] = true
	}
	return list
}

func newStream(origin, key string, o Options, now time.Time) *Stream {
	s := &Stream{key: key, listeners: make(map[*listener]struct{}), Hub: api.NewHub(origin, streamEvents), selection: o.Selection, packets: newSampler(o.Rate, now)}
	if o.Losses {
		s.losses = newSampler(LossRate, now)
	}
	return s
}

func (s *Stream) begin(now time.Time) {
	s.packets.begin(now)
	if s.losses != nil {
		s.losses.begin(now)
	}
}

// add offers a packet that has ended.
func (s *Stream) add(p *packet.Packet, of packet.Scope) {
	if !s.selection.Match(p, of) {
		return
	}
	if s.losses != nil && (p.State == record.Lost || p.State == record.Expired) {
		s.losses.add(p)
		return
	}
	s.packets.add(p)
}

// send sends what was chosen; encode makes its event of a packet, and a newline.
func (s *Stream) send(encode func(*packet.Packet) []byte) {
	for topic, from := range map[uint8]*sampler{TopicPacket: s.packets, TopicLoss: s.losses} {
		if from == nil {
			continue
		}
		list := from.end()
		for i := range list {
			s.Hub.Send(topic, Topics[topic], encode(&list[i]))
		}
	}
}

// load sends a Load, which is encoded but for the number of packets that this stream has left out.
func (s *Stream) load(encoded []byte) {
	left := s.packets.left
	s.packets.left = 0
	if s.losses != nil {
		left += s.losses.left
		s.losses.left = 0
	}
	s.Hub.Send(TopicLoad, Topics[TopicLoad], fmt.Appendf(bytes.Clone(encoded), "%d}\n", left))
}

// encodeLoad is a Load as load wants it.
func encodeLoad(l *Load) []byte {
	text := encode(l)
	return bytes.TrimSuffix(text, []byte("0}\n"))
}

// EncodeRecord is a record as JSON with, in words, why the packet was lost; and a newline.
func EncodeRecord(r *record.Record) []byte {
	text := encode(r.JSON())
	if why := wording.RecordWhy(r); why != "" {
		text = fmt.Appendf(bytes.TrimSuffix(text, []byte("}\n")), `,"why":%s}`+"\n", bytes.TrimSpace(encode(why)))
	}
	return text
}

// encode is a value as JSON, and a newline.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil { // which does not fail for what is sent here
		return []byte("{}\n")
	}
	return b.Bytes()
}
