// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"fmt"
	"path/filepath"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/words"
)

// recordingNote has words for what there is to say about a recording.
func (w Sentences) recordingNote(n note.Note) (key, text string) {
	switch n := n.(type) {
	case note.SegmentDamaged:
		text = "warning: damaged, the answer is without it: " + n.Damage.String()
		if n.Others > 0 {
			text += fmt.Sprintf("; and %s others", words.Decimal(uint64(n.Others)))
		}
		return text, text
	case note.NotKept:
		text = words.PacketsWere(n.Packets) + " not recorded: " + n.Cause
		return text, text
	case note.RecordingCovers:
		return Say("no packet matches; %s", w.Covers(n))
	case note.RecordingUnfinished:
		return Say("%s", unfinishedText(&n))
	case note.RecordingWithoutEnd:
		if n.Recorders == 1 {
			return Say("the recording %s has no end: its recorder was ended by force, and what it had not finished is missing", n.Path)
		}
		return Say("the recording %s lacks the ends of %d recorders: they were ended by force, and what they had not finished is missing", n.Path, n.Recorders)
	}
	return "", ""
}

// unfinishedText says what of a recording was not finished.
func unfinishedText(n *note.RecordingUnfinished) string {
	switch {
	case n.PID != 0 && n.Nothing:
		return fmt.Sprintf("a recorder (process %d) has kept nothing in %s yet", n.PID, n.Path)
	case n.PID != 0:
		return fmt.Sprintf("a recorder (process %d) is at work in %s: what it has not finished yet is not read", n.PID, n.Path)
	case n.Nothing:
		return fmt.Sprintf("nothing was kept in %s: a lock alone is there, and nobody is seen to record", n.Path)
	case len(n.Files) == 1:
		return fmt.Sprintf("a file was not finished, and is not read: %s; nobody is seen to record there", filepath.Join(n.Path, n.Files[0]))
	}
	return fmt.Sprintf("%s of %s were not finished, and are not read; nobody is seen to record there", words.Plural(len(n.Files), "file"), n.Path)
}

// Covers says from when to when a recording is.
func (w Sentences) Covers(n note.RecordingCovers) string {
	if n.First.IsZero() {
		return fmt.Sprintf("the recording %s has no packet", n.Path)
	}
	const form = "2006-01-02 15:04:05.000000"
	return fmt.Sprintf("the recording %s covers %s to %s", n.Path, n.First.In(w.Location).Format(form), n.Last.In(w.Location).Format(form))
}
