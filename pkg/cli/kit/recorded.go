// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/fault"
)

// ReadFlag makes a command answer from a recording in place of the domain.
type ReadFlag struct{ paths readPaths }

// readPaths is the value of --read.
type readPaths []string

func (p *readPaths) String() string { return strings.Join(*p, ",") }

// Type names the value in help texts.
func (p *readPaths) Type() string { return "string" }

// Set adds a path.
func (p *readPaths) Set(s string) error {
	*p = append(*p, s)
	return nil
}

// Add makes it a flag of cmd.
func (f *ReadFlag) Add(cmd *cobra.Command) {
	cmd.Flags().VarP(&f.paths, "read", "r", "ask a recording (a directory of radar record, or one of its files) in place of the domain; times such as --since 5m count from its last packet")
	_ = cmd.MarkFlagFilename("read", "parquet")
}

// Given reports whether a recording is to be asked.
func (f *ReadFlag) Given() bool { return len(f.paths) > 0 && f.paths[0] != "" }

// Each calls ask for each of several recordings, which is the one that is asked then.
func (f *ReadFlag) Each(k *Kit, ask func(path string) error) error {
	paths, now := f.paths, k.Now
	defer func() { f.paths = paths }()
	for i := range paths {
		f.paths, k.recorded, k.Now = paths[i:i+1], nil, now
		if err := ask(paths[i]); err != nil {
			return fmt.Errorf("%s: %w", paths[i], err)
		}
	}
	return nil
}

// Several are the recordings, if --read is there more than once.
func (f *ReadFlag) Several() []string {
	if len(f.paths) < 2 {
		return nil
	}
	return f.paths
}

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
	if len(f.paths) > 1 {
		return fault.Usage.Errorf("--read: %d recordings: use one", len(f.paths))
	}
	r, err := answer.ReadRecorded(f.paths[0])
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
