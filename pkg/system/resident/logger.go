// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"errors"
	"log/slog"
	"strings"
)

// Logger logs an error when it begins and its end, not every repetition. It is for one goroutine.
type Logger struct {
	Log      *slog.Logger
	Troubles *Troubles // the same for others; nil, if not each error has an end that is told

	seen map[string]string // the cause, by what was tried
}

// causes are the innermost errors. Around them stand names that differ each time, as those of
// temporary files do.
func causes(err error) string {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, err := range list.Unwrap() {
			all = append(all, causes(err))
		}
		return strings.Join(all, ", ")
	}
	if inner := errors.Unwrap(err); inner != nil {
		return causes(inner)
	}
	return err.Error()
}

// Warn notes what became of something that is tried again and again; err is nil if it has worked.
func (o *Logger) Warn(what string, err error) {
	text := ""
	if err != nil {
		text = causes(err)
	}
	if o.seen[what] == text {
		return
	}
	if o.seen == nil {
		o.seen = make(map[string]string)
	}
	o.seen[what] = text
	if failed := o.Troubles.set(what, err); failed != nil {
		o.Log.Warn("tell others", "error", failed)
	}
	if err != nil {
		o.Log.Warn(what, "error", err)
		return
	}
	o.Log.Info(what + ": works again")
}
