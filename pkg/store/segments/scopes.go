// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/vnetradar/radar/pkg/packet"
)

// mostScopes bounds what is kept of those that packets came with.
const mostScopes = 256

// scopes are those of packets that a Writer gets, whose numbers become those of one list.
type scopes struct {
	to *packet.Numbers
	by map[packet.Scope]*packet.Translation
}

func newScopes() *scopes {
	return &scopes{to: packet.NewNumbers(), by: make(map[packet.Scope]*packet.Translation)}
}

func (s *scopes) of(of packet.Scope) *packet.Translation {
	if !canCompare(of) {
		return packet.NewTranslation(of, s.to)
	}
	t, ok := s.by[of]
	if !ok {
		if len(s.by) >= mostScopes {
			clear(s.by)
		}
		t = packet.NewTranslation(of, s.to)
		s.by[of] = t
	}
	return t
}

// canCompare reports whether a Scope can be compared with others: a pointer can.
func canCompare(of packet.Scope) bool { return reflect.TypeOf(of).Comparable() }

// readNumbers reads what a file says of its numbers.
func readNumbers(text string) (*packet.Numbers, error) {
	n := packet.NewNumbers()
	if err := json.Unmarshal([]byte(text), n); err != nil {
		return nil, fmt.Errorf("names of nodes and ports: %w", err)
	}
	return n, nil
}
