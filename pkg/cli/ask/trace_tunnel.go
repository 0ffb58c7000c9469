// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/cli/words"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/record"
)

// findOuters returns, by the ID of the packet inside, the packets into which tunnels put
// the found ones. It looks through the ring, and only where there are tunnels.
func findOuters(r *agent.Reader, found []*backpack.Found) (map[string][]record.Record, error) {
	outers := make(map[string][]record.Record)
	if !slices.ContainsFunc(r.Domain.Ports, func(p domain.Port) bool { return p.Tunnel }) {
		return outers, nil
	}
	wanted := make(map[string]bool)
	for _, f := range found {
		wanted[f.Record.ID] = true
	}
	around := backpack.Select{Match: func(r *record.Record) bool { return r.Inner != "" && wanted[r.Inner] }}
	list, _, err := backpack.Scan(r.Maps, r.Decoder, backpack.ScanOptions{Select: around})
	if err != nil {
		return nil, fmt.Errorf("look for the packets around it: %w", err)
	}
	for _, o := range list {
		outers[o.Inner] = append(outers[o.Inner], o)
	}
	return outers, nil
}

// goInto adds, behind the hop by whose tunnel the packet went into others, the hops of
// those, with times as the inner packet's.
func (s *story) goInto(r *record.Record, outers []record.Record, shown *words.Names) {
	outers = slices.Clone(outers)
	slices.SortStableFunc(outers, func(a, b record.Record) int { return cmp.Compare(a.TNs, b.TNs) })
	behind := make([][]step, len(r.Hops)+1) // which hops; at the end those that nothing fits
	for k := range outers {
		o := &outers[k]
		at := tunnelHop(r, o)
		behind[at] = append(behind[at], outerSteps(shown.Record(o), o.TNs-r.TNs)...)
	}
	for i := len(behind) - 1; i >= 0; i-- { // from the end: those before keep their places
		s.steps = slices.Insert(s.steps, min(i+1, len(r.Hops)), behind[i]...)
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
func outerSteps(o *record.Record, by int64) []step {
	var steps []step
	for i := range o.Hops {
		st := hopStep(o, i, false)
		st.at, st.node = shifted(&o.Hops[i], by), "| "+st.node
		if i == 0 {
			st.what = fmt.Sprintf("inside %s %s, %s: %s", o.Proto, words.Packet(o), o.ID, st.what)
		}
		steps = append(steps, st)
	}
	if o.Loss != nil {
		lost := dropStep(o.Loss, false)
		lost.node, lost.at = "| "+lost.node, "?"
		steps = append(steps, lost)
	}
	return steps
}

// shifted is hopTime of a hop whose packet began so many ns later.
func shifted(h *record.Hop, by int64) string {
	if h.AtNs == nil {
		return "?"
	}
	at := *h.AtNs + by
	if h.NodeNs != nil {
		at -= *h.NodeNs
	}
	return "+" + words.Duration(float64(max(at, 0)))
}
