// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"os"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Split returns the selectors of arguments that may be lists: "netns:a,netns:b", or "netns:a,b,docker:web", in which b is
// of the kind before it. A comma that belongs to a name stays: that of a label's value, and of a namespace that
// exists.
func Split(args []string) (selectors []string) {
	for _, arg := range args {
		selectors = append(selectors, splitOne(arg)...)
	}
	return selectors
}

func splitOne(arg string) (list []string) {
	kind := ""
	for part := range strings.SplitSeq(arg, ",") {
		_, spec, err := topo.SplitName(part)
		if own, _, ok := strings.Cut(spec, ":"); err == nil && ok && slices.Contains(allKinds, own+":") {
			kind = own
			list = append(list, part)
			continue
		}
		last := len(list) - 1
		switch {
		case last >= 0 && (strings.HasPrefix(list[last], "docker:label=") || strings.HasPrefix(list[last], "netns:") && isThere(list[last]+","+part)):
			list[last] += "," + part
		case part == "" && last >= 0: // "a," is what a shell's completion leaves
		case kind != "" && err == nil:
			name, rest, named := strings.Cut(part, "=")
			if !named {
				name, rest = "", part
			} else {
				name += "="
			}
			list = append(list, name+kind+":"+rest)
		default:
			list = append(list, part)
		}
	}
	return list
}

// allKinds are the beginnings of all selectors.
var allKinds = append([]string{"lab:"}, kinds...)

// isThere reports whether a namespace has that name or path.
func isThere(selector string) bool {
	name := strings.TrimPrefix(selector, "netns:")
	if strings.HasPrefix(name, "/") {
		_, err := os.Stat(name)
		return err == nil
	}
	return slices.Contains(topo.Named(), name)
}
