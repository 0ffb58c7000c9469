// SPDX-License-Identifier: Apache-2.0

package query

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Statement is one of a text of SQL.
type Statement struct {
	Text string // without the semicolon
	Line int    // of its first line that is not blank, from 1
}

// Split finds statements. rest is what has no semicolon at its end: blank if nothing but space and comments.
func Split(text string) (all []Statement, rest string) {
	begin := 0
	for at := 0; at < len(text); {
		n := skip(text[at:])
		if text[at] == ';' {
			if s := (Statement{strings.TrimSpace(text[begin:at]), lineOf(text, begin)}); !Blank(s.Text) {
				all = append(all, s)
			}
			begin = at + 1
		}
		at += n
	}
	return all, text[begin:]
}

// SplitAll is Split of a text that ends: its last statement needs no semicolon.
func SplitAll(text string) []Statement {
	all, rest := Split(text)
	if !Blank(rest) {
		all = append(all, Statement{strings.TrimSpace(rest), lineOf(text, len(text)-len(rest))})
	}
	return all
}

// lineOf is the line of the first character behind a place that is no space.
func lineOf(text string, at int) int {
	at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t\r\n"))
	return 1 + strings.Count(text[:at], "\n")
}

// Blank reports whether a text has nothing but space and comments.
func Blank(text string) bool { return Uncommented(text) == "" }

// Uncommented is a text without the space and the comments that it begins with.
func Uncommented(text string) string {
	for text != "" {
		switch {
		case strings.ContainsRune(" \t\r\n;", rune(text[0])):
			text = text[1:]
		case strings.HasPrefix(text, "--"), strings.HasPrefix(text, "/*"):
			text = text[skip(text):]
		default:
			return text
		}
	}
	return ""
}

var dollar = regexp.MustCompile(`^\$([A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$`)

// skip is how long the text, name, comment or character is that a text begins with. One that has no end takes all.
func skip(text string) int {
	end := func(begin int, closing string) int {
		if i := strings.Index(text[begin:], closing); i >= 0 {
			return begin + i + len(closing)
		}
		return len(text)
	}
	switch {
	case strings.HasPrefix(text, "--"):
		if i := strings.IndexAny(text, "\r\n"); i >= 0 {
			return i + 1
		}
		return len(text)
	case strings.HasPrefix(text, "/*"):
		return comment(text)
	case text[0] == '\'' || text[0] == '"':
		return end(1, text[:1]) // two of them are two texts side by side
	case (text[0] == 'e' || text[0] == 'E') && len(text) > 1 && text[1] == '\'':
		return escaped(text)
	case text[0] == '$':
		if tag := dollar.FindString(text); tag != "" {
			return end(len(tag), tag)
		}
	case isLetter(text[0]):
		n := 1
		for n < len(text) && (isLetter(text[n]) || text[n] >= '0' && text[n] <= '9' || text[n] == '$') {
			n++
		}
		return n
	}
	_, n := utf8.DecodeRuneInString(text)
	return n
}

// comment is how long a comment is, which may have others in it.
func comment(text string) int {
	deep := 0
	for i := 0; i+1 < len(text); i++ {
		switch text[i : i+2] {
		case "/*":
			deep++
			i++
		case "*/":
			deep--
			i++
			if deep == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// escaped is how long a text such as E'it\'s' is.
func escaped(text string) int {
	for i := 2; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\'':
			return i + 1
		}
	}
	return len(text)
}

func isLetter(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_' || b >= 0x80
}

// FirstWord is that of a statement, in small letters.
func FirstWord(text string) string {
	for text != "" {
		n := skip(text)
		switch {
		case isLetter(text[0]):
			return strings.ToLower(text[:n])
		case text[0] == '(':
			return "("
		}
		text = text[n:]
	}
	return ""
}
