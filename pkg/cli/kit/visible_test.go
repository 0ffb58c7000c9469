// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestVisible: control characters, C1 as well, and what turns the direction of text, are spelt,
// wherever writes are cut.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n":                              "plain\ttext\n",
		"a → Gerät-Ω 日本 ✓":                           "a → Gerät-Ω 日本 ✓",
		"e\x1b[2Jth0":                                `e\u001b[2Jth0`,
		"\x1b]0;title\x07\r\x08\x7f":                 `\u001b]0;title\u0007\u000d\u0008\u007f`,
		"c1 \u009b31m \u0085":                        `c1 \u009b31m \u0085`,
		"c1 \x9b31m \xc2":                            `c1 \x9b31m \xc2`,
		"a\u202egnp.exe\u2066\u200b":                 `a\u202egnp.exe\u2066\u200b`,
		"line\u2028\U000e0001":                       `line\u2028\udb40\udc01`,
		"\ufffd stays":                               "\ufffd stays",
		"\x1b" + strings.Repeat("A", len(ownMark)):   `\u001b` + strings.Repeat("A", len(ownMark)),
		string(ownMark[:10]):                         spelt(ownMark[:10]),
		Own("\x1b[1m") + "bold\x1b" + Own("\x1b[0m"): "\x1b[1mbold\\u001b\x1b[0m",
	} {
		for _, step := range []int{len(text), 1, 3} {
			var out bytes.Buffer
			v := &visible{w: &out}
			for rest := text; rest != ""; rest = rest[min(step, len(rest)):] {
				if n, err := v.Write([]byte(rest[:min(step, len(rest))])); err != nil || n != min(step, len(rest)) {
					t.Fatal(n, err)
				}
			}
			v.flush()
			if out.String() != want {
				t.Errorf("%q by %d: %q, want %q", text, step, out.String(), want)
			}
		}
	}
}

// spelt are bytes that were held to the end.
func spelt(b []byte) (text string) {
	for _, c := range b {
		text += fmt.Sprintf(`\x%02x`, c)
	}
	return text
}

// FuzzVisible: nothing that is printed tells a terminal anything, and JSON means the same.
func FuzzVisible(f *testing.F) {
	f.Add("a\x1b[2J", 1)
	f.Add("\u009b\u202e\xff\U000e0001", 2)
	f.Fuzz(func(t *testing.T, text string, step int) {
		if step < 1 {
			step = 1
		}
		line, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		v := &visible{w: &out}
		fmt.Fprintf(v, "%s\n", line)
		var meant, was string
		if err := errors.Join(json.Unmarshal(out.Bytes(), &meant), json.Unmarshal(line, &was)); err != nil || meant != was {
			t.Errorf("%q means %q, %v", out.String(), meant, err)
		}
		for rest := text; rest != ""; rest = rest[min(step, len(rest)):] {
			fmt.Fprint(v, rest[:min(step, len(rest))])
		}
		v.flush()
		if !utf8.ValidString(out.String()) {
			t.Errorf("%q is no text", out.String())
		}
		for _, r := range out.String() {
			if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
				t.Errorf("%q has %q", out.String(), r)
			}
		}
	})
}
