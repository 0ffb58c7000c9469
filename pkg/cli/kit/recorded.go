// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/fault"
)

// ReadFlag makes a command answer from a recording in place of the domain.
type ReadFlag struct{ path string }

// Add makes it a flag of cmd.
func (f *ReadFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.path, "read", "r", "", "ask a recording (a directory of radar record, or one of its files) in place of the domain; times such as --since 5m count from its last packet")
	_ = cmd.MarkFlagFilename("read", "parquet")
}

// Given reports whether a recording is to be asked.
func (f *ReadFlag) Given() bool { return f.path != "" }

// RefuseFollow refuses to follow a recording.
func (f *ReadFlag) RefuseFollow(follow bool) error {
	if follow && f.Given() {
		return fault.Usage.Errorf("-f with --read: a recording has ended, nothing comes; leave out one of them")
	}
	return nil
}

// Open opens the recording, if one is to be asked: from then on the Kit's time is the recording's, and
// ReadSources reads it.
func (f *ReadFlag) Open(k *Kit) error {
	if !f.Given() || k.recorded != nil {
		return nil
	}
	r, err := answer.ReadRecorded(f.path)
	if err != nil {
		return err
	}
	k.recorded = r
	if now := r.Now(); !now.IsZero() {
		k.Now = func() time.Time { return now.In(time.Local) }
	}
	return nil
}

// ReadSingles opens the domain's ring, or the recording, for read.
func (k *Kit) ReadSingles(s *answer.Selection, read func(answer.Singles) error) error {
	if k.recorded == nil {
		return k.ReadRing(s, func(ring *answer.Ring) error { return read(ring) })
	}
	return k.ReadSources(s, func(all *answer.Sources) error { return read(all.Singles()) })
}

// Recording opens the recording that is to be asked.
func (f *ReadFlag) Recording(k *Kit) (*answer.Recorded, error) {
	if err := f.Open(k); err != nil {
		return nil, err
	}
	return k.recorded, nil
}
