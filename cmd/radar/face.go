// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/vnetradar/radar/pkg/fault"

// face is how settings and commands are written for users of this command line.
var face = fault.Face{
	Setting: func(name string) string { return "--" + name },
	Command: func(words string) string { return "radar " + words },
}

// rendered are the texts with settings and commands as users write them.
func rendered(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, face.Render(text))
	}
	return all
}
