// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/vnetradar/radar/pkg/fault"
)

// Face is how settings and commands are written for users of this command line.
var Face = fault.Face{
	Setting: func(name string) string { return "--" + name },
	Command: func(words string) string { return "radar " + words },
}

// Rendered are texts of libraries with settings and commands as users write them.
func Rendered(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, Face.Render(text))
	}
	return all
}

// visible is where everything goes that radar prints. Names of interfaces, answers of servers
// and contents of files are others' words: a terminal would do what control characters in them
// say. They are shown as \u001b instead, as Go and JSON write them, and so are the characters
// that turn the direction of text, and whatever else is not seen. JSON means the same with
// them. What radar itself wants to tell the terminal is marked by own.
type visible struct {
	mu   sync.Mutex
	w    io.Writer
	held []byte // the beginning of a character, or of ownMark
	own  bool   // between two ownMarks
	// messages: it is what radar says, in which libraries name settings and commands.
	messages bool
}

// Visible returns a writer by which nothing in what is written to it can tell a terminal anything.
func Visible(w io.Writer) io.Writer { return &visible{w: w} }

// VisibleMessages is Visible for what radar says. It also writes settings and commands, which
// libraries name, as users do.
func VisibleMessages(w io.Writer) io.Writer { return &visible{w: w, messages: true} }

// ownMark stands before and behind what radar tells the terminal. Nobody else can know it: it
// is another one in each process, and is not printed.
var ownMark = []byte("\x1b" + rand.Text())

// Own marks a sequence for the terminal.
func Own(sequence string) string { return string(ownMark) + sequence + string(ownMark) }

// Write implements io.Writer.
func (v *visible) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.held) == 0 && !v.own && isPlain(b) {
		return v.w.Write(b)
	}
	text, rest := v.quote(append(v.held, b...))
	if v.messages {
		text = []byte(Face.Render(string(text)))
	}
	if _, err := v.w.Write(text); err != nil {
		return 0, err
	}
	v.held = rest
	return len(b), nil
}

// flush prints what was held back, at the end.
func (v *visible) flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.held) == 0 {
		return
	}
	var text []byte
	for _, c := range v.held {
		text = appendQuoted(text, utf8.RuneError, c)
	}
	v.held = nil
	_, _ = v.w.Write(text) // the rest of what is no character
}

// isPlain reports whether nothing has to be looked at more closely.
func isPlain(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if hasSpecial(binary.LittleEndian.Uint64(b)) && !arePlain(b[:8]) {
			return false
		}
	}
	return arePlain(b)
}

func arePlain(b []byte) bool {
	for _, c := range b {
		if (c < ' ' && c != '\n' && c != '\t') || c >= 0x7f {
			return false
		}
	}
	return true
}

// hasSpecial reports whether any of eight characters is below ' ' or above '~', all at once: to
// take ' ' from one below it sets its high bit, as to add 1 to one above '~' does. What a
// neighbour lends or gets can only make it true where it is not.
func hasSpecial(eight uint64) bool {
	const ones = 1<<56 | 1<<48 | 1<<40 | 1<<32 | 1<<24 | 1<<16 | 1<<8 | 1
	const high = ones << 7
	return (eight|(eight-ones*' ')|(eight+ones))&high != 0
}

// quote returns what is printed of b, and the end of b if that is a beginning only.
func (v *visible) quote(b []byte) (text, rest []byte) {
	for len(b) > 0 {
		switch {
		case bytes.HasPrefix(b, ownMark):
			v.own, b = !v.own, b[len(ownMark):]
			continue
		case bytes.HasPrefix(ownMark, b), !v.own && !utf8.FullRune(b):
			return text, bytes.Clone(b)
		case v.own:
			text, b = append(text, b[0]), b[1:]
			continue
		}
		r, size := utf8.DecodeRune(b)
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) && (r != utf8.RuneError || size > 1) {
			text = append(text, b[:size]...)
		} else {
			text = appendQuoted(text, r, b[0])
		}
		b = b[size:]
	}
	return text, nil
}

// appendQuoted spells a character that is not shown; of what is none, the byte.
func appendQuoted(text []byte, r rune, c byte) []byte {
	switch {
	case r == utf8.RuneError:
		return fmt.Appendf(text, `\x%02x`, c)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(text, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(text, `\u%04x`, r)
}

// Plainest is the writer below a visible one, or w itself.
func Plainest(w any) any {
	if v, ok := w.(*visible); ok {
		return v.w
	}
	return w
}

// ForPrograms is standard output for what programs read: it is as it is, but on a terminal.
func (k *Kit) ForPrograms() io.Writer {
	if w, ok := Plainest(k.Stdout).(io.Writer); ok && !IsTerminal(w) {
		return w
	}
	return k.Stdout
}

// flushShown prints what was held back, when nothing comes any more.
func (k *Kit) flushShown() {
	for _, w := range []io.Writer{k.Stdout, k.Stderr} {
		if v, ok := w.(*visible); ok {
			v.flush()
		}
	}
}
