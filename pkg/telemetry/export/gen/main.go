// SPDX-License-Identifier: Apache-2.0

// Command gen prints the section of docs/int/export.md that says which number a report has for which
// reason of the kernel.
package main

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/telemetry/export"
)

func main() { fmt.Print(reasons()) }

func reasons() string {
	var b strings.Builder
	b.WriteString("| number | name | of the kernel's reasons |\n|---|---|---|\n")
	var names []string
	all := export.Reasons()
	for i, r := range all {
		names = append(names, "`"+r.Kernel+"`")
		if i+1 < len(all) && all[i+1].Number == r.Number {
			continue
		}
		text := strings.Join(names, ", ")
		if !r.Same {
			text = "the same"
		}
		number := fmt.Sprint(r.Number)
		if v6, _ := export.DropReason(r.Kernel, 6); v6 != r.Number {
			number += fmt.Sprintf(", of IPv6 %d", v6)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", number, r.Name, text)
		names = nil
	}
	return b.String()
}
