// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"regexp"
	"strings"
)

// Face says how users of one face of radar write settings and commands. The zero Face leaves them
// as they are.
type Face struct {
	Setting func(name string) string  // of "max-hops", as of --max-hops
	Command func(words string) string // of "detach --domain red": its settings are written already
}

var (
	settings = regexp.MustCompile(`‹[a-z0-9-]+›`)
	commands = regexp.MustCompile(`«[^«»]+»`)
)

// Render writes the settings and commands that a text names as the face's users do.
func (f Face) Render(text string) string {
	if f.Setting == nil || f.Command == nil {
		return text
	}
	text = settings.ReplaceAllStringFunc(text, func(s string) string { return f.Setting(strings.Trim(s, "‹›")) })
	return commands.ReplaceAllStringFunc(text, func(s string) string { return f.Command(strings.Trim(s, "«»")) })
}
