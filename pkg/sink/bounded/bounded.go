// SPDX-License-Identifier: Apache-2.0

// Package bounded makes texts fit into formats. Names in recordings of others can be any bytes, of any length.
package bounded

import (
	"strings"
	"unicode/utf8"
)

// Text is the beginning of s in UTF-8, at most so many bytes. It costs no more than these, however long s is.
func Text(s string, most int) string {
	if len(s) > most {
		end := most
		for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	return strings.ToValidUTF8(s, "?")
}
