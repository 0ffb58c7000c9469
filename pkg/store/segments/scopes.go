// SPDX-License-Identifier: Apache-2.0

package segments

import "github.com/vnetradar/radar/pkg/packet"

// mostScopes bounds what is kept of those that packets came with.
const mostScopes = 256

// scopes are those of packets that a Writer gets, whose numbers become those of one list.
type scopes struct {
	to *numbers
	by map[packet.Scope]*translation
}

func newScopes() *scopes {
	return &scopes{to: newNumbers(), by: make(map[packet.Scope]*translation)}
}

func (s *scopes) of(of packet.Scope) *translation {
	if !canCompare(of) {
		return newTranslation(of, s.to)
	}
	t, ok := s.by[of]
	if !ok {
		if len(s.by) >= mostScopes {
			clear(s.by)
		}
		t = newTranslation(of, s.to)
		s.by[of] = t
	}
	return t
}
