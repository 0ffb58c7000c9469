// SPDX-License-Identifier: Apache-2.0

package story

import (
	"cmp"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// goInto adds, behind the hop by whose tunnel the packet went into others, the steps of
// those, with times as the story's.
func (s *Story) goInto(outers []record.Record) {
	r := s.Record
	outers = slices.Clone(outers)
	slices.SortStableFunc(outers, func(a, b record.Record) int { return cmp.Compare(a.TNs, b.TNs) })
	behind := make([][]Step, len(r.Hops)+1) // which hops; at the end those that nothing fits
	for k := range outers {
		o := &outers[k]
		at := tunnelHop(r, o)
		behind[at] = append(behind[at], outerSteps(o, o.TNs-r.TNs)...)
	}
	for i := len(behind) - 1; i >= 0; i-- { // from the end: those before keep their places
		s.Steps = slices.Insert(s.Steps, min(i+1, len(r.Hops)), behind[i]...)
	}
}

// tunnelHop is the hop at which a packet went into the outer one: of that node the latest
// that was not after it; the number of hops if there is none. An outer packet begins when
// the inner one is out by the tunnel's port.
func tunnelHop(r, o *record.Record) int {
	at := len(r.Hops)
	if len(o.Hops) == 0 {
		return at
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.NodeID != o.Hops[0].NodeID || h.Port == "" {
			continue
		}
		if at == len(r.Hops) || h.AtNs != nil && r.TNs+*h.AtNs <= o.TNs {
			at = i
		}
	}
	return at
}

// outerSteps tells of a tunnel's packet that began so many ns after the one inside.
func outerSteps(o *record.Record, by int64) []Step {
	var steps []Step
	for i := range o.Hops {
		st := hopStep(o, i)
		if st.AtNs != nil {
			*st.AtNs = max(*st.AtNs+by, 0)
		}
		steps = append(steps, st)
	}
	if o.Loss != nil {
		lost := lossStep(o, o.Loss, false)
		lost.AtNs = nil // the step of the packet inside, which is lost with it, has the time
		steps = append(steps, lost)
	}
	return steps
}
