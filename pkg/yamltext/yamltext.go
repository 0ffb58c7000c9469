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

// LongList finds the first list with more than so many entries, or object with as many fields; nil: none has. What
// comes of a text is known only when it is parsed, which takes a hundred times its bytes.
func LongList(tokens token.Tokens, most int) *token.Token {
	var flow []int  // entries of the lists and objects in brackets that are open
	var block lines // those of lines
	for _, t := range tokens {
		n := 0
		switch inside := len(flow) - 1; t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow = append(flow, 1)
		case token.SequenceEndType, token.MappingEndType:
			flow = flow[:max(0, inside)]
		case token.CollectEntryType:
			if inside >= 0 {
				flow[inside]++
				n = flow[inside]
			}
		case token.SequenceEntryType:
			if inside < 0 {
				n = block.add(level{column: t.Position.Column, list: true})
			}
		case token.MappingValueType:
			if inside < 0 && t.Prev != nil {
				n = block.add(level{column: t.Prev.Position.Column})
			}
		}
		if n > most {
			return t
		}
	}
	return nil
}

// level is a list or an object that is written in lines.
type level struct {
	column, entries int
	list            bool
}

// lines are those that lie in each other where a text is read.
type lines []level

// add adds an entry, and returns how many there are of that list or object. What lies deeper has ended, and a list at
// the column of a field that comes has, too.
func (l *lines) add(to level) int {
	for n := len(*l) - 1; n >= 0; n-- {
		if top := (*l)[n]; top.column < to.column || top.column == to.column && (to.list || !top.list) {
			break
		}
		*l = (*l)[:n]
	}
	n := len(*l) - 1
	if n < 0 || (*l)[n].column != to.column || (*l)[n].list != to.list {
		*l = append(*l, to)
		n++
	}
	(*l)[n].entries++
	return (*l)[n].entries
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
