// SPDX-License-Identifier: Apache-2.0

package pcapng

import (
	"bytes"
	"encoding/json"

	"github.com/vnetradar/radar/pkg/record"
)

// CommentVersion is the version of comments: fields are only added within one.
const CommentVersion = 1

// comment is what a frame says beside its header, in this order. Times are in ns.
type comment struct {
	Radar     int          `json:"radar"` // CommentVersion
	ID        string       `json:"id"`
	GUID      string       `json:"guid,omitempty"`
	Host      string       `json:"host,omitempty"`
	Hop       int          `json:"hop"` // index, as in the record
	Node      string       `json:"node"`
	Port      string       `json:"port,omitempty"`
	Direction string       `json:"direction"`
	State     record.State `json:"state"`
	Segs      int          `json:"segs"`
	LatencyNs *int64       `json:"latency_ns,omitempty"` // of the packet, from first to last stamp
	LinkNs    *int64       `json:"link_ns,omitempty"`    // until it came in here
	NodeNs    *int64       `json:"node_ns,omitempty"`    // until it went out here
	QueueNs   *int64       `json:"queue_ns,omitempty"`   // behind this frame
	Loss      *loss        `json:"loss,omitempty"`
	Inner     string       `json:"inner,omitempty"`
	Truncated bool         `json:"truncated,omitempty"`
	Assumed   []string     `json:"assumed,omitempty"`
}

// loss is where the packet was lost.
type loss struct {
	*record.Loss
	AfterDelivery bool `json:"after_delivery,omitempty"`
}

// commenter writes comments.
type commenter struct {
	text bytes.Buffer
	json *json.Encoder
}

func newCommenter() *commenter {
	c := &commenter{}
	c.json = json.NewEncoder(&c.text)
	c.json.SetEscapeHTML(false)
	return c
}

// of is the comment of a frame, valid until the next call. Every frame of a packet that was lost says
// where, so that a filter finds its whole path.
func (c *commenter) of(r *record.Record, s *sight) ([]byte, error) {
	v := comment{
		Radar: CommentVersion, ID: r.ID, GUID: r.GUID, Host: r.Host, Hop: s.hop, Node: s.node, Port: s.port, Direction: s.direction,
		State: r.State, Segs: r.Segs, LatencyNs: r.LatencyNs, LinkNs: s.link, NodeNs: s.inside, QueueNs: s.queue,
		Loss: s.loss, Inner: r.Inner, Truncated: r.Truncated, Assumed: s.assumed,
	}
	if r.IsLost() {
		v.LatencyNs = nil
	}
	switch {
	case v.Loss != nil:
	case r.Loss != nil:
		v.Loss = &loss{Loss: r.Loss}
	case r.LocalDrop != nil:
		v.Loss = &loss{Loss: r.LocalDrop, AfterDelivery: true}
	}
	c.text.Reset()
	if err := c.json.Encode(&v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(c.text.Bytes(), []byte("\n")), nil
}
