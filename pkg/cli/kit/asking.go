// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"

	"github.com/vnetradar/radar/pkg/answer"
)

// ReadRing opens the domain's ring for read, if the domain has what is selected.
func (k *Kit) ReadRing(s *answer.Selection, read func(*answer.Ring) error) error {
	ring, err := answer.OpenRing(k.Domain)
	if err != nil {
		return err
	}
	defer ring.Close()
	if err := ring.Check(s); err != nil {
		return refusedNode("--node", err)
	}
	if err := read(ring); err != nil {
		return err
	}
	k.Note(ring.Late())
	return nil
}

// ReadSources opens what there is of the domain, or the recording that --read names, for read.
func (k *Kit) ReadSources(s *answer.Selection, read func(*answer.Sources) error) error {
	all, notes, err := k.open(s)
	if err != nil {
		return refusedNode("--node", err)
	}
	defer all.Close()
	k.Note(notes)
	if err := read(all); err != nil {
		return err
	}
	k.Note(all.Late())
	return nil
}

// open opens the recording that is to be asked, or what there is of the domain.
func (k *Kit) open(s *answer.Selection) (*answer.Sources, []answer.Note, error) {
	if k.recorded != nil {
		return k.recorded.Open(s)
	}
	return answer.Open(k.Domain, s)
}

// AskOnce gives one answer, which is finished also if ctx ends meanwhile. Notes come below the rows.
func (k *Kit) AskOnce(ctx context.Context, s *answer.Sources, q *answer.Question, show func(*answer.Counts) error) error {
	return k.RowsFirst(func() error { return k.answer(context.WithoutCancel(ctx), s, q, show) })
}

func (k *Kit) answer(ctx context.Context, s *answer.Sources, q *answer.Question, show func(*answer.Counts) error) error {
	if d := s.Domain(); d != nil {
		k.ShowNames(d)
	}
	counts, notes, err := s.Ask(ctx, q)
	k.Note(notes)
	if err != nil {
		return err
	}
	counts.Names = k.NamesOf(counts.Names)
	if err := show(counts); err != nil {
		return err
	}
	k.Note(counts.Remarks())
	return nil
}
