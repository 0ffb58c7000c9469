// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"strings"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/join"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// keptReports are those that were collected for a domain: a source of answers.
type keptReports struct {
	*Kit
	info *collect.Info
	ring *answer.Ring // whose packets these may be; nil: nothing is attached
}

// OpenReports opens the reports of the domain (answer.OpenReports).
func (k *Kit) OpenReports(ring *answer.Ring) (answer.Source, error) {
	info, err := k.loadReports()
	if err != nil || info == nil {
		return nil, err
	}
	return &keptReports{k, info, ring}, nil
}

// Lacks implements answer.Source.
func (r *keptReports) Lacks() []answer.Note { return nil }

// HasNode implements answer.Source.
func (r *keptReports) HasNode(name string) bool { return isReported(r.info, name) }

// WhyEmpty says what was collected (answer.Source).
func (r *keptReports) WhyEmpty(*answer.Selection) []answer.Note {
	return []answer.Note{answer.NoReportMatches{Reports: r.info.Next - r.info.First, Since: r.info.Since}}
}

// Count implements answer.Source.
func (r *keptReports) Count(_ context.Context, q *answer.Question, to *answer.Counts) ([]answer.Note, error) {
	return r.addReports(to, q.Selection)
}

// Records implements answer.Source.
func (r *keptReports) Records(_ context.Context, s *answer.Selection, fn func(*record.Record) error) ([]answer.Note, error) {
	window, found, failed := answer.Newest{Last: s.Last}, false, error(nil)
	emit := func(rec *record.Record) {
		if failed == nil {
			failed = fn(rec)
		}
	}
	notes, err := r.eachReport(s, func(rec *record.Record) {
		found = true
		if rec.Source == record.EBPF || s.Last == 0 {
			emit(rec)
		} else {
			window.Add(rec)
		}
	})
	if err != nil {
		return notes, err
	}
	for _, rec := range window.Records() {
		emit(rec)
	}
	if !found && r.ring == nil {
		notes = append(notes, r.WhyEmpty(s)...)
	}
	return notes, failed
}

// loadReports is collect.Load; nil if no reports are kept.
func (k *Kit) loadReports() (*collect.Info, error) {
	i, err := collect.Load(k.Domain)
	if errors.Is(err, collect.ErrNone) {
		return nil, nil
	}
	return i, err
}

// eachReport calls fn for every record of reports that is selected, oldest first. Of those that the ring
// knows as radar's own packets, these are shown, with what the reports say.
func (r *keptReports) eachReport(s *answer.Selection, fn func(*record.Record)) (notes []answer.Note, err error) {
	i := r.info
	if i.First > 0 {
		notes = append(notes, answer.ReportsKept{Datagrams: i.Next, Kept: i.Next - i.First})
	}
	if !i.All && i.Metrics.Unchanged > 0 {
		notes = append(notes, answer.ReportsUnchanged{Reports: i.Metrics.Unchanged})
	}
	if i.Gaps > 0 {
		notes = append(notes, answer.ReportsMissing{Reports: i.Gaps})
	}
	return notes, i.Records(r.Domain, storiesOf(r.ring), func(rec *record.Record) {
		if s.Match(rec) {
			fn(rec)
		}
	})
}

// addReports counts selected reports, and adds their names to those of the packets that are counted already.
func (r *keptReports) addReports(to *answer.Counts, s *answer.Selection) ([]answer.Note, error) {
	numbers := &packet.Registry{Domain: to.Names}
	var p packet.Packet
	count := func(r *record.Record) {
		collect.ToPacket(&p, r, numbers, to.Offset())
		to.Add(&p)
	}
	window := answer.Newest{Last: s.Last}
	take := count
	if s.Last > 0 {
		take = window.Add
	}
	notes, err := r.eachReport(s, func(r *record.Record) {
		if r.Source != record.EBPF { // which the ring's own count has
			take(r)
		}
	})
	if err != nil {
		return notes, err
	}
	for _, r := range window.Records() {
		count(r)
	}
	to.Names = numbers
	if numbers.Over > 0 {
		notes = append(notes, answer.Unnamed{Visits: numbers.Over})
	}
	return notes, nil
}

// isReported says whether reports may name such a node.
func isReported(i *collect.Info, node string) bool {
	if i == nil {
		return false
	}
	if strings.HasPrefix(node, "int-") {
		return true
	}
	for _, name := range i.Names {
		if name == node {
			return true
		}
	}
	return false
}

// storiesOf are the stories of a domain that is read; nil: there is none.
func storiesOf(ring *answer.Ring) collect.Stories {
	if ring == nil {
		return nil
	}
	if s := join.Of(ring.Reader); s != nil {
		return s
	}
	return nil
}
