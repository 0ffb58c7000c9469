// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"errors"
	"fmt"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/system"
)

// Note says notes on standard error, with -f each only once.
func (k *Kit) Note(notes []answer.Note) {
	for _, n := range notes {
		k.noteOnce(k.Sentences().Note(n))
	}
}

// Notef says something about an answer on standard error, with -f only once.
func (k *Kit) Notef(format string, args ...any) { k.noteOnce(wording.Say(format, args...)) }

// noteOnce says text on standard error, below the rows that were printed before, with -f once for each key.
func (k *Kit) noteOnce(key, text string) {
	if k.View != nil {
		if k.View.Said[key] {
			return
		}
		k.View.Said[key] = true
	}
	if k.held != nil {
		*k.held = append(*k.held, text)
		return
	}
	k.sayNote(text)
}

// sayNote flushes rows before. That they cannot be written, the end of the command says.
func (k *Kit) sayNote(text string) {
	if k.Out != nil {
		_ = k.Out.Flush()
	}
	fmt.Fprintf(k.Stderr, "radar: %s\n", text)
}

// RowsFirst holds back notes until do has printed rows.
func (k *Kit) RowsFirst(do func() error) error {
	var held []string
	k.held = &held
	err := do()
	k.held = nil
	for _, text := range held {
		k.sayNote(text)
	}
	return err
}

// Warn shows an error that leaves the answer as it is. A domain that was detached
// meanwhile is no such error.
func (k *Kit) Warn(err error) {
	if err != nil && !errors.Is(err, system.ErrNotAttached) {
		k.Notef("warning: %v", err)
	}
}

// Sentences makes sentences of values, with times as tables have them.
func (k *Kit) Sentences() wording.Sentences {
	return wording.Sentences{Location: k.Location, Now: k.Now(), Face: Face}
}
