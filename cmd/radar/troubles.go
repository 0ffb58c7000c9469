// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/domain"
)

// meantBy says what it means for answers that the agent cannot do something.
var meantBy = map[string]string{
	"follow the topology": "what has come to the domain since then is not in answers",
	"write snapshot":      "what it has counted is lost if it ends",
	"renew the lease":     "packets are recorded until the lease ends",
}

// troubleTexts say what the agent cannot do, what that means, and what helps. All that the same
// full disk is the cause of is one text.
func (a *app) troubleTexts(name string, list []agent.Trouble) (texts []string) {
	var full []agent.Trouble
	for _, t := range list {
		if t.Full {
			full = append(full, t)
			continue
		}
		texts = append(texts, fmt.Sprintf("the agent cannot %s: its log says more, %s", a.troubleText(t), domain.File(name, "agent.log")))
	}
	if len(full) == 0 {
		return texts
	}
	var what []string
	for _, t := range full {
		what = append(what, a.troubleText(t))
	}
	return append(texts, fmt.Sprintf("the agent cannot %s: make room on the disk of %s, it goes on by itself then",
		strings.Join(what, ", nor "), domain.Dir(name)))
}

// troubleText is "follow the topology since 10:15:04 (no space left on device; ...)".
func (a *app) troubleText(t agent.Trouble) string {
	text := fmt.Sprintf("%s since %s (%s", t.What, a.clockTime(t.Since), t.Error)
	if means := meantBy[t.What]; means != "" {
		text += "; " + means
	}
	return text + ")"
}

// noteTroubles says what the agent cannot do.
func (a *app) noteTroubles(name string, process agent.Process) error {
	list, err := process.Troubles()
	if err != nil {
		return err
	}
	for _, text := range a.troubleTexts(name, list) {
		a.noteOnce(text, text)
	}
	return nil
}
