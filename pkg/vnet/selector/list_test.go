// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for arg, want := range map[string]string{
		"netns:a":                            "netns:a",
		"netns:a,netns:b":                    "netns:a netns:b",
		"netns:a,b,docker:web,pid:7":         "netns:a netns:b docker:web pid:7",
		"x=netns:a,y=b,z=docker:w":           "x=netns:a y=netns:b z=docker:w",
		"netns:a,":                           "netns:a",
		"a,b":                                "a b",
		"docker:label=k=v,w":                 "docker:label=k=v,w",
		"docker:label=k=v,w,netns:a":         "docker:label=k=v,w netns:a",
		"lab:one,kathara:pc1,pc2":            "lab:one kathara:pc1 kathara:pc2",
		"netns:/proc/self/ns/net,netns:host": "netns:/proc/self/ns/net netns:host",
		",netns:a":                           " netns:a",
		"":                                   "",
	} {
		if got := Split([]string{arg}); strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", arg, got, want)
		}
	}
	if got := Split([]string{"netns:a,b", "pid:1"}); !slices.Equal(got, []string{"netns:a", "netns:b", "pid:1"}) {
		t.Errorf("%q", got)
	}
}
