// SPDX-License-Identifier: Apache-2.0

// Package yamltext is what every reader of YAML needs before it parses a text that somebody else wrote, and where it
// cannot be parsed.
package yamltext

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// mostNested is how deep lists and objects of a text may lie in each other.
const mostNested = 64

// Refused finds what makes a short text a large value, and what the parser takes the square of time for. It returns
// where that stands and what is wrong with it; nil: nothing is.
func Refused(tokens token.Tokens) (at *token.Token, why string) {
	flow, dashes, line := 0, 0, 0
	for _, t := range tokens {
		refused := ""
		switch t.Type {
		case token.AnchorType, token.AliasType:
			refused = "anchors and aliases"
		case token.MergeKeyType:
			refused = "merges (<<)"
		case token.TagType:
			refused = "tags (!)"
		case token.MappingKeyType:
			refused = "keys of several lines (?)"
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType:
			if dashes++; t.Position.Line != line {
				dashes, line = 1, t.Position.Line
			}
		}
		switch {
		case refused != "":
			return t, refused + " are not read here"
		case flow > mostNested || dashes > mostNested:
			return t, fmt.Sprintf("lists and objects lie in each other too deep: use %d at most", mostNested)
		}
	}
	return nil, ""
}

// Place takes apart what goccy says, "[LINE:COLUMN] TEXT", without the lines of the source that it draws. Line and
// column are 0 where it says none.
func Place(err error) (line, column int, text string) {
	text, _, _ = strings.Cut(err.Error(), "\n")
	place, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "] ")
	if !ok || !strings.HasPrefix(text, "[") {
		return 0, 0, text
	}
	first, second, _ := strings.Cut(place, ":")
	line, _ = strconv.Atoi(first)
	column, _ = strconv.Atoi(second)
	return line, column, rest
}
