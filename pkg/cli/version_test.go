// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"regexp"
	"testing"
)

// A release says its number, and every other build that it is none.
func TestVersionOf(t *testing.T) {
	for _, c := range []struct{ linked, module, want string }{
		{"", "", release + "-dev"},
		{"", "(devel)", release + "-dev"},
		{"", "v0.1.0", "0.1.0"},
		{"", "v0.2.0-rc.1", "0.2.0-rc.1"},
		{"", "v0.1.0+dirty", release + "-dev"},
		{"", "v0.0.0-20261128120000-0123456789ab", release + "-dev"},
		{"", "v0.1.1-0.20261128120000-0123456789ab", release + "-dev"},
		{"", "v0.1.1-rc.1.0.20261128120000-0123456789ab", release + "-dev"},
		{"0.1.0-1~bpo12", "v0.1.0", "0.1.0-1~bpo12"},
	} {
		if got := versionOf(c.linked, c.module); got != c.want {
			t.Errorf("linked %q, module %q: %q, want %q", c.linked, c.module, got, c.want)
		}
	}
}

// What "go install ...@main" built names its commit.
func TestPseudoCommit(t *testing.T) {
	for module, want := range map[string]bool{
		"v0.0.0-20261128120000-0123456789ab": true, "v0.1.1-0.20261128120000-0123456789ab": true,
		"v0.1.1-rc.1.0.20261128120000-0123456789ab": true, "v0.1.0": false, "v0.1.0-rc.1": false, "(devel)": false,
	} {
		if m := pseudoCommit.FindStringSubmatch(module); (m != nil) != want || want && m[1] != "0123456789ab" {
			t.Errorf("%s: %q", module, m)
		}
	}
}

// The release that a tree becomes is the first one in its changelog.
func TestReleaseInChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^## (\S+)`).FindSubmatch(text)
	if m == nil || string(m[1]) != release {
		t.Errorf("CHANGELOG.md begins with %q, not with %s", m, release)
	}
}
