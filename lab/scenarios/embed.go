// SPDX-License-Identifier: Apache-2.0

// Package scenarios holds the lab scenarios that are built into radar. Each is
// a folder beside this file; package lab says what such a folder may contain.
package scenarios

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/vnetradar/radar/p4"
	"github.com/vnetradar/radar/pkg/lab"
)

// switchesOfP4 is the scenario whose machines get radar's P4 program.
const switchesOfP4 = "int-p4"

//go:embed bottleneck chain ecmp firewall forwarder int-p4 nat servicechain switches vmrouter
var files embed.FS

// Names lists the built-in scenarios, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // cannot be: the folder is part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// Open returns the built-in scenario with that name.
func Open(name string) (*lab.Scenario, error) {
	for _, n := range Names() {
		if n != name {
			continue
		}
		sub, err := fs.Sub(files, name)
		if err != nil {
			return nil, fmt.Errorf("open built-in scenario: %w", err)
		}
		s, err := lab.NewScenario(name, "built-in "+name, sub)
		if err == nil && name == switchesOfP4 {
			s.Share(p4.Name+".json", p4.JSON)
			s.Share(p4.Name+".p4info.txtpb", p4.Info)
		}
		return s, err
	}
	return nil, fmt.Errorf("no built-in scenario %q: there are %s", name, strings.Join(Names(), ", "))
}
