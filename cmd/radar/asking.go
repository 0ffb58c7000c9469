// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/vnetradar/radar/pkg/answer"
)

// readRing opens the domain's ring for read, if the domain has what is selected.
func (a *app) readRing(s *answer.Selection, read func(*answer.Ring) error) error {
	ring, err := answer.OpenRing(a.domain)
	if err != nil {
		return err
	}
	defer ring.Close()
	if err := ring.Check(s); err != nil {
		return refusedNode("node", err)
	}
	if err := read(ring); err != nil {
		return err
	}
	a.note(ring.Late())
	return nil
}

// readSources opens what there is of the domain for read.
func (a *app) readSources(s *answer.Selection, read func(*answer.Sources) error) error {
	all, notes, err := answer.Open(a.domain, s, a.openReports)
	if err != nil {
		return refusedNode("node", err)
	}
	defer all.Close()
	a.note(notes)
	if err := read(all); err != nil {
		return err
	}
	a.note(all.Late())
	return nil
}

// askOnce gives one answer, which is finished also if ctx ends meanwhile.
func (a *app) askOnce(ctx context.Context, s *answer.Sources, q *answer.Question, show func(*answer.Counts) error) error {
	if d := s.Domain(); d != nil {
		a.showNames(d)
	}
	counts, notes, err := s.Ask(context.WithoutCancel(ctx), q)
	a.note(notes)
	if err != nil {
		return err
	}
	counts.Names = a.namesOf(counts.Names)
	if err := show(counts); err != nil {
		return err
	}
	a.note(counts.Remarks())
	return nil
}
