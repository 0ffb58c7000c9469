// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"strings"
)

// Nearest returns the word that was meant, as far as that can be guessed; "" if none is near:
// at most two letters, and not most of them, differ.
func Nearest(word string, words []string) string {
	best, near := 3, ""
	for _, w := range words {
		if d := distance(strings.ToLower(word), strings.ToLower(w)); d < best && 2*d < len(word)+1 {
			best, near = d, w
		}
	}
	return near
}

// distance is how many letters must be changed, added, left out, or swapped with the next one.
func distance(a, b string) int {
	const far = 99 // of words that nobody confuses
	if len(a) > 64 || len(b) > 64 {
		return far
	}
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

// Meant is " (did you mean ...?)" about the word that is near; "" if none is.
func Meant(word string, words []string) string {
	if near := Nearest(word, words); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}
