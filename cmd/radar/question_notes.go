// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/domain"
)

// note says notes on standard error, with -f each only once.
func (a *app) note(notes []answer.Note) {
	for _, n := range notes {
		a.noteOnce(a.words().note(n))
	}
}

// texts are notes in words.
func (a *app) texts(notes []answer.Note) (list []string) {
	for _, n := range notes {
		_, text := a.words().note(n)
		list = append(list, text)
	}
	return list
}

// notef says something about an answer on standard error, with -f only once.
func (a *app) notef(format string, args ...any) { a.noteOnce(say(format, args...)) }

// noteOnce says text on standard error, with -f once for each key.
func (a *app) noteOnce(key, text string) {
	if a.view != nil {
		if a.view.said[key] {
			return
		}
		a.view.said[key] = true
	}
	fmt.Fprintf(a.stderr, "radar: %s\n", text)
}

// warn shows an error that leaves the answer as it is. A domain that was detached
// meanwhile is no such error.
func (a *app) warn(err error) {
	if err != nil && !errors.Is(err, domain.ErrNotAttached) {
		a.notef("warning: %v", err)
	}
}
