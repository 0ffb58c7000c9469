// SPDX-License-Identifier: Apache-2.0

package wireshark

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page names every field and preference that the plugin has.
func TestPageNamesFields(t *testing.T) {
	page, err := os.ReadFile("../../docs/int/wireshark.md")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		b, err := files.ReadFile(string(INT) + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var names []string
	_, fields, _ := strings.Cut(read("fields.lua"), "local int = {")
	ints, reports, ok := strings.Cut(fields, "local report = {")
	if !ok {
		t.Fatal("no lists of fields")
	}
	form := regexp.MustCompile(`(?m)^\t\{ "([a-z0-9_.]+)", "`)
	for prefix, list := range map[string]string{"int.": ints, "int_report.": reports} {
		for _, m := range form.FindAllStringSubmatch(list, -1) {
			names = append(names, prefix+m[1])
		}
	}
	config := read("config.lua")
	for _, m := range regexp.MustCompile(`(?m)^\t\tp\.(\w+) = Pref`).FindAllStringSubmatch(config, -1) {
		names = append(names, "int."+m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\treport\.prefs\.(\w+) = Pref`).FindAllStringSubmatch(config, -1) {
		names = append(names, "int_report."+m[1])
	}
	if len(names) < 120 {
		t.Errorf("only %d names: are they found?", len(names))
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/int/wireshark.md does not name %s", name)
		}
	}
}

// The page names every field of the plugin for captures of radar.
func TestPageNamesPackets(t *testing.T) {
	page, err := os.ReadFile("../../docs/wireshark.md")
	if err != nil {
		t.Fatal(err)
	}
	fields, err := files.ReadFile("radar_packets/fields.lua")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`"(radar\.[a-z._]+)"`).FindAllSubmatch(fields, -1)
	if len(names) < 20 {
		t.Errorf("only %d names: are they found?", len(names))
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+string(name[1])+"`") {
			t.Errorf("docs/wireshark.md does not name %s", name[1])
		}
	}
}

// The one file of each plugin has every part, and what uses them behind them.
func TestPlugins(t *testing.T) {
	for p, least := range map[Plugin]int{INT: 10, Packets: 3} {
		plugin, err := p.File()
		if err != nil {
			t.Fatal(err)
		}
		text := string(plugin)
		main := strings.Index(text, "_G."+string(p)+"_loaded")
		parts := regexp.MustCompile(`part\("(\w+)"`).FindAllStringSubmatch(text, -1)
		if len(parts) < least {
			t.Errorf("%s: %d parts", p, len(parts))
		}
		for _, part := range parts {
			if at := strings.Index(text, `package.preload["`+string(p)+"."+part[1]+`"] = function()`); at < 0 || at > main {
				t.Errorf("part %s of %s is at %d, what uses it at %d", part[1], p, at, main)
			}
		}
		for _, other := range Plugins {
			if other.Is(plugin) != (other == p) {
				t.Errorf("%s is taken for %s: %v", p, other, other.Is(plugin))
			}
		}
	}
}
