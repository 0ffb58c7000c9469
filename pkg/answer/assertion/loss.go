// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"fmt"
	"strconv"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// lossMeasure counts packets that were lost or expired, at a place and for a reason if it has those.
type lossMeasure struct {
	of        Loss
	sent, had uint64
	worst     worst
}

func (m *lossMeasure) add(r *record.Record) {
	m.sent += uint64(r.Segs)
	loss := m.lossOf(r)
	if loss == nil {
		return
	}
	m.had += uint64(r.Segs)
	m.worst.add(r.ID, float64(r.Segs), func() string { return lossText(loss) })
}

// lossOf is the loss of a packet that counts; nil: none does.
func (m *lossMeasure) lossOf(r *record.Record) *record.Loss {
	any := m.of.At == "" && m.of.Reason == ""
	if r.State == record.Lost || r.State == record.Expired {
		if r.Loss == nil && any { // an expired one whose address moved is no loss that is known
			return nil
		}
		if r.Loss != nil && m.counts(r.Loss) {
			return r.Loss
		}
	}
	for i := range r.Losses {
		if l := &r.Losses[i]; !any && !l.AfterDelivery && m.counts(&l.Loss) {
			return &l.Loss
		}
	}
	return nil
}

func (m *lossMeasure) counts(l *record.Loss) bool {
	return (m.of.At == "" || m.of.At == l.Node || m.of.At == l.Node+"/"+l.Port) && (m.of.Reason == "" || m.of.Reason == l.Reason)
}

// lossText says where and why.
func lossText(l *record.Loss) string {
	place := l.Node
	if l.Port != "" {
		place += "/" + l.Port
	}
	text := fmt.Sprintf("lost at %s (%s)", place, l.At)
	if l.Reason == record.NotSeen {
		text = fmt.Sprintf("not seen again behind %s (%s)", place, l.At)
	} else if l.Reason != "" {
		text += ": " + l.Reason
	}
	if l.Qdisc != "" {
		text += " of " + l.Qdisc
	}
	return text
}

func (m *lossMeasure) judge(to *Result) {
	share := 0.0
	if m.sent > 0 {
		share = float64(m.had) / float64(m.sent)
	}
	to.Values["lost"], to.Values["share"] = float64(m.had), share
	to.Measured = fmt.Sprintf("%d of %d lost (%s)", m.had, m.sent, percent(share))
	switch {
	case m.of.Below != nil:
		to.Promised, to.Verdict = "less than "+percent(float64(*m.of.Below))+" lost", verdict(share < float64(*m.of.Below))
	case *m.of.AtMost == 0:
		to.Promised, to.Verdict = "no packet lost", verdict(m.had == 0)
	default:
		to.Promised, to.Verdict = fmt.Sprintf("at most %s lost", packets(uint64(*m.of.AtMost))), verdict(m.had <= uint64(*m.of.AtMost))
	}
	if m.of.At != "" {
		to.Promised += " at " + m.of.At
	}
	if m.of.Reason != "" {
		to.Promised += " for " + m.of.Reason
	}
	to.Evidence = m.worst.evidence()
}

// percent writes a share with three digits.
func percent(share float64) string { return strconv.FormatFloat(share*100, 'g', 3, 64) + " %" }

// natMeasure looks for what packets were changed to.
type natMeasure struct {
	of              NAT
	arrived, others uint64
	worst           worst
}

func (m *natMeasure) add(r *record.Record) {
	if !arrived(r) {
		return
	}
	m.arrived += uint64(r.Segs)
	src, dst, sport, dport := "", "", (*int)(nil), (*int)(nil)
	for i := range r.Hops { // what was changed last
		h := &r.Hops[i]
		src, dst = last(src, h.Src), last(dst, h.Dst)
		if h.Sport != nil {
			sport = h.Sport
		}
		if h.Dport != nil {
			dport = h.Dport
		}
	}
	if within(m.of.Src, src) && within(m.of.Dst, dst) && is(m.of.Sport, sport) && is(m.of.Dport, dport) {
		return
	}
	m.others += uint64(r.Segs)
	m.worst.add(r.ID, 0, func() string {
		if src+dst == "" && sport == nil && dport == nil {
			return "unchanged"
		}
		from, to := src, dst
		if from == "" {
			from = r.Src
		}
		if to == "" {
			to = r.Dst
		}
		return "changed to " + words.Endpoint(from, sport) + " > " + words.Endpoint(to, dport)
	})
}

func last(old, now string) string {
	if now != "" {
		return now
	}
	return old
}

func is(want *Number, got *int) bool {
	return want == nil || got != nil && uint64(*got) == uint64(*want)
}

func (m *natMeasure) judge(to *Result) {
	for _, one := range []struct {
		name string
		want *Prefix
	}{{"source", m.of.Src}, {"destination", m.of.Dst}} {
		if one.want != nil {
			to.Promised = and(to.Promised, one.name+" changed to "+one.want.String())
		}
	}
	for _, one := range []struct {
		name string
		want *Number
	}{{"source port", m.of.Sport}, {"destination port", m.of.Dport}} {
		if one.want != nil {
			to.Promised = and(to.Promised, fmt.Sprintf("%s changed to %d", one.name, *one.want))
		}
	}
	to.Measured = fmt.Sprintf("%d of %d", m.arrived-m.others, m.arrived)
	to.Verdict = verdict(m.others == 0 && m.arrived > 0)
	to.Values["changed"], to.Values["arrived"] = float64(m.arrived-m.others), float64(m.arrived)
	to.Evidence = m.worst.evidence()
	if m.arrived == 0 {
		to.Cause, to.Undecided = "no packet that was selected arrived", true
	}
}
