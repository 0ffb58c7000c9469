// SPDX-License-Identifier: Apache-2.0

package replies

import (
	"net"
	"strconv"

	"github.com/vnetradar/radar/pkg/aggregate"
)

// Untranslated is a connection that was translated on the way, and of which somebody sent packets past the translation: an
// answer had come to it as the far end sent it.
type Untranslated struct {
	aggregate.Flow          // as its source sends it
	End            string   // the far end behind the translation, to which it sent, too
	Packets        uint64   // that it sent there
	Between        []string // the nodes on the way, one of which translates
}

func isTranslated(f *aggregate.FlowRow) bool {
	return f.NATSrc != "" || f.NATDst != "" || f.NATSport != nil || f.NATDport != nil
}

// FindUntranslated returns such connections, at most 8.
func FindUntranslated(s *Seen, c *Choice) (list []Untranslated) {
	translated := make(map[key]*aggregate.FlowRow)
	for i := range s.Flows {
		if f := &s.Flows[i]; f.NATDst != "" && f.Sport != nil && f.NATSrc == "" && f.NATSport == nil {
			translated[ask(f)] = f
		}
	}
	paths := make(map[string]*aggregate.PathRow)
	for i := range s.Paths {
		paths[s.Paths[i].Path] = &s.Paths[i]
	}
	for i := range s.Flows {
		own := &s.Flows[i]
		f := translated[ask(own)]
		if f == nil || f == own || isTranslated(own) || len(list) >= maxTold || !c.has(&f.Flow) {
			continue
		}
		u := Untranslated{Flow: f.Flow, End: net.JoinHostPort(own.Dst, strconv.Itoa(number(own.Dport))), Packets: own.Packets}
		if len(f.PathList) > 0 {
			if way := paths[f.PathList[0].Path]; way != nil && len(way.Hops) > 2 {
				u.Between = nodesOf(way)[1 : len(way.Hops)-1]
			}
		}
		list = append(list, u)
	}
	return list
}

// Askers are who began connections whose source was translated, by what their far end sees.
type Askers map[key]string

// NewAskers returns those of flows. Of several in one place the first counts.
func NewAskers(flows []aggregate.FlowRow) Askers {
	a := make(Askers)
	for i := range flows {
		if f := &flows[i]; f.NATSrc != "" {
			if k := ask(f); a[k] == "" {
				a[k] = f.Src
			}
		}
	}
	return a
}

// Of is who began the connection that packets of a flow answer: the flow's packets are for the translator's own address, and
// mean another.
func (a Askers) Of(answer *aggregate.Flow) (address string, ok bool) {
	if answer.Sport == nil {
		return "", false
	}
	address, ok = a[reply(answer)]
	return address, ok
}
