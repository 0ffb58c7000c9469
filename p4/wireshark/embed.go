// SPDX-License-Identifier: Apache-2.0

// Package wireshark holds the Wireshark plugin that is built into radar.
package wireshark

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"strings"
)

// Name is the file that Wireshark loads.
const Name = "radar_int.lua"

const folder = "radar_int"

//go:embed radar_int/*.lua
var files embed.FS

const head = "-- SPDX-License-Identifier: Apache-2.0\n-- Made of the files in p4/wireshark/radar_int of radar's sources: change those.\n"

// IsPlugin says whether a file is this plugin, of any version.
func IsPlugin(content []byte) bool { return bytes.HasPrefix(content, []byte(head)) }

// Plugin is the plugin as one file: its parts, and behind them the file that uses them. Wireshark loads
// whatever ends in .lua below its folder of plugins, and newer versions only one file of a name, so parts
// of their own would be in the way of others.
func Plugin() ([]byte, error) {
	entries, err := files.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read the built-in plugin: %w", err)
	}
	var b bytes.Buffer
	b.WriteString(head + "\n")
	var main []byte
	for _, e := range entries {
		source, err := files.ReadFile(path.Join(folder, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the built-in plugin: %w", err)
		}
		if e.Name() == Name {
			main = source
			continue
		}
		fmt.Fprintf(&b, "package.preload[%q] = function()\n%send\n\n", folder+"."+strings.TrimSuffix(e.Name(), ".lua"), source)
	}
	b.Write(main)
	return b.Bytes(), nil
}
