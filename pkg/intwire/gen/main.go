// SPDX-License-Identifier: Apache-2.0

// Command gen prints a section of docs/int/formats.md that comes from pkg/intwire's tables: fields
// (by bit), or profiles.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/vnetradar/radar/pkg/intwire"
)

// sections of the page, by name.
var sections = map[string]func() string{"fields": fields, "profiles": profiles}

func main() {
	if len(os.Args) != 2 || sections[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: gen fields|profiles")
		os.Exit(2)
	}
	fmt.Print(sections[os.Args[1]]())
}

// fields are one table for bitmaps of INT and one for reports.
func fields() string {
	var b strings.Builder
	section := func(title string, formats ...intwire.Format) {
		fmt.Fprintf(&b, "| bit | %s | words | names and bits | meaning |\n|---|---|---|---|---|\n", title)
		for i := range intwire.Rows {
			row := &intwire.Rows[i]
			var in []string
			for _, f := range formats {
				if row.Formats&(1<<f) != 0 {
					in = append(in, strings.TrimPrefix(strings.TrimPrefix(f.String(), "INT "), "TR "))
				}
			}
			if in == nil {
				continue
			}
			var parts []string
			for _, p := range row.Parts {
				parts = append(parts, fmt.Sprintf("`%v` %d", p.Field, p.Bits))
			}
			meaning := row.Meaning
			if note := options[row.Option]; note != "" {
				meaning += " (" + note + ")"
			}
			if row.Last {
				meaning += "; behind domain-specific words"
			}
			fmt.Fprintf(&b, "| %d | %s | %d | %s | %s |\n", row.Bit, strings.Join(in, ", "), row.Words(), strings.Join(parts, ", "), meaning)
		}
		b.WriteString("\n")
	}
	section("INT", intwire.INT05, intwire.INT10, intwire.INT20)
	section("report 2.0", intwire.TR20)
	section("report 1.0", intwire.TR10)
	section("report 0.5", intwire.TR05Drop, intwire.TR05Local)
	return b.String()
}

// options are the rows that are not the texts'.
var options = map[intwire.Option]string{
	intwire.LongTimes:  "not in the text: some programs",
	intwire.ShortL2:    "not in the text: some programs",
	intwire.EvenQueues: "not in the text: some programs",
}

func profiles() string {
	var b strings.Builder
	b.WriteString("| profile | what | differs from the texts | known from |\n|---|---|---|---|\n")
	for i := range intwire.Profiles {
		p := &intwire.Profiles[i]
		differs := p.Differs
		if differs == "" {
			differs = "-"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.Title, differs, p.From)
	}
	return b.String()
}
