// SPDX-License-Identifier: Apache-2.0

package kernel

import "testing"

func TestOtherMountNS(t *testing.T) {
	for _, c := range []struct {
		name, ours, first string
		ancestors         []string
		want              bool
	}{
		{"the machine's own", "a", "a", []string{"a", "a"}, false},
		{"ip netns exec", "b", "a", []string{"a"}, true},
		{"nsenter into process 1's", "a", "a", []string{"b"}, false},
		{"process 1 is silent", "a", "", []string{"a", ""}, false},
		{"process 1 is silent, ip netns exec", "b", "", []string{"", "a"}, true},
	} {
		if got := isOtherMountNS(c.ours, c.first, c.ancestors); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
