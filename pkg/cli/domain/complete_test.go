// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// Flags of attach that name nodes complete those of the same command line and those that
// are attached; files never.
func TestCompleteAttachFlags(t *testing.T) {
	w := clitest.NewWorld(t)
	nodes := w.Lab.AttachArgs() // h1, r1, h2
	complete := func(args []string, flag, word string) string {
		out, _, code := clitest.Radar(t, append(append([]string{"__completeNoDesc", "attach"}, args...), flag, word)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		last := lines[len(lines)-1]
		if code != kit.ExitOK || last != ":4" && last != ":6" { // no files, no space
			t.Errorf("completing %s %q: exit code %d, %q", flag, word, code, out)
		}
		return strings.Join(lines[:len(lines)-1], " ")
	}
	check := func(when string, args []string) {
		t.Helper()
		for _, c := range [][3]string{
			{"--carry-header", "", "h1 r1 h2"},
			{"--carry-header", "r1,", "r1,h1 r1,h2"},
			{"--role", "", "h1/eth0= r1/eth0= r1/eth1= h2/eth0="},
			{"--role", "r1/eth1=", "r1/eth1=internal r1/eth1=edge"},
			{"--role", "r1/eth1=edge,h2/eth0=", "r1/eth1=edge,h2/eth0=internal r1/eth1=edge,h2/eth0=edge"},
			{"--vm", "", ""},
			{"--vm", "vm=", "vm=h1/eth0 vm=r1/eth0 vm=r1/eth1 vm=h2/eth0"},
			{"--vm", "vm=r1/eth1,", "vm=r1/eth1,h1/eth0 vm=r1/eth1,r1/eth0 vm=r1/eth1,h2/eth0"},
		} {
			if got := complete(args, c[0], c[1]); got != c[2] {
				t.Errorf("%s: completing %s %q: %q, want %q", when, c[0], c[1], got, c[2])
			}
		}
	}
	check("named", nodes)
	if got := complete(nil, "--carry-header", ""); got != "" {
		t.Errorf("with no nodes: %q", got)
	}
	w.Radar(kit.ExitOK, "attach", "-d", strings.Join(nodes[:2], ","))
	check("attached and named", nodes[2:])

	// The same domain: names that are wrong say which there are.
	for args, want := range map[string]string{
		"loss --domain " + w.Domain + "x": `"` + w.Domain + `x" is not attached (attach nodes with: radar attach --domain ` + w.Domain + `x NODE...); attached are: ` + w.Domain + " (did you mean --domain " + w.Domain + "?)",
		"detach h1,r2":                    `has no node r2 (did you mean "r1"?); it has: h1, r1`,
		"attach " + nodes[2] + "x":        "no such namespace",
	} {
		if _, stderr, code := clitest.Radar(t, strings.Fields(args)...); code == kit.ExitOK || !strings.Contains(stderr, want) {
			t.Errorf("radar %s: exit code %d, %q, want %q", args, code, stderr, want)
		}
	}
	list, _, _ := clitest.Radar(t, "__completeNoDesc", "attach", "netns:host,netns:"+w.Domain)
	if !strings.Contains(list, "netns:host,netns:"+w.Domain) || strings.Contains(list, "netns:host,netns:host") {
		t.Errorf("completing behind a comma: %s", list)
	}
	out := w.Radar(kit.ExitOK, "detach", "h1,r1")
	if !strings.Contains(out, "2 nodes") {
		t.Errorf("detach h1,r1: %s", out)
	}
}
