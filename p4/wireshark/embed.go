// SPDX-License-Identifier: Apache-2.0

// Package wireshark holds the Wireshark plugins that are built into radar.
package wireshark

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"strings"
)

// Plugin is a plugin by the name of its folder.
type Plugin string

// The plugins: INT in packets, and what radar knows of the packets of a capture that it has written.
const (
	INT     Plugin = "radar_int"
	Packets Plugin = "radar_packets"
)

// Plugins are all of them.
var Plugins = []Plugin{INT, Packets}

//go:embed radar_int/*.lua radar_packets/*.lua
var files embed.FS

// Name is the file that Wireshark loads.
func (p Plugin) Name() string { return string(p) + ".lua" }

func (p Plugin) head() []byte {
	return fmt.Appendf(nil, "-- SPDX-License-Identifier: Apache-2.0\n-- Made of the files in p4/wireshark/%s of radar's sources: change those.\n", p)
}

// Is says whether a file is this plugin, of any version.
func (p Plugin) Is(content []byte) bool { return bytes.HasPrefix(content, p.head()) }

// File is the plugin as one file: its parts, and behind them the file that uses them. Wireshark loads
// whatever ends in .lua below its folder of plugins, and newer versions only one file of a name, so parts
// of their own would be in the way of others.
func (p Plugin) File() ([]byte, error) {
	entries, err := files.ReadDir(string(p))
	if err != nil {
		return nil, fmt.Errorf("read the built-in plugin: %w", err)
	}
	var b bytes.Buffer
	b.Write(p.head())
	b.WriteByte('\n')
	var main []byte
	for _, e := range entries {
		source, err := files.ReadFile(path.Join(string(p), e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the built-in plugin: %w", err)
		}
		if e.Name() == p.Name() {
			main = source
			continue
		}
		fmt.Fprintf(&b, "package.preload[%q] = function()\n%send\n\n", string(p)+"."+strings.TrimSuffix(e.Name(), ".lua"), source)
	}
	b.Write(main)
	return b.Bytes(), nil
}
