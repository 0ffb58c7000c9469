// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// lineHandler writes log records for a person at a terminal: "radar: text: error".
// Times and levels are left out, and so is what is not worth a look (Debug).
type lineHandler struct {
	mu    *sync.Mutex // guards w
	w     io.Writer
	attrs []slog.Attr
}

// NewLineHandler returns a handler that writes a line for each record.
func NewLineHandler(w io.Writer) slog.Handler { return &lineHandler{mu: &sync.Mutex{}, w: w} }

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

// Handle implements slog.Handler.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("radar: ")
	if r.Level >= slog.LevelWarn {
		b.WriteString("warning: ")
	}
	b.WriteString(r.Message)
	add := func(attr slog.Attr) bool {
		text := strings.ReplaceAll(attr.Value.String(), "\n", `\n`) // others' words: no line of their own
		switch {
		case attr.Key == "error":
			b.WriteString(": " + text)
		case text != "" && text != "[]":
			b.WriteString(" " + attr.Key + " " + text)
		}
		return true
	}
	for _, attr := range h.attrs {
		add(attr)
	}
	r.Attrs(add)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintln(h.w, b.String())
	return err
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lineHandler{mu: h.mu, w: h.w, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements slog.Handler; groups are not shown.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }
