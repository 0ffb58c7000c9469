// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
)

func TestParseVM(t *testing.T) {
	got, err := ParseVM("r=v/tap0,v/tap1,10.0.1.2,w/tap0,v/tap0")
	want := VM{"r", []string{"v/tap0", "v/tap1", "w/tap0"}, []netip.Addr{netip.MustParseAddr("10.0.1.2")}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for arg, why := range map[string]string{
		"v/tap0":             "write NAME=NODE/PORT",
		"=v/tap0":            "node name",
		"r=":                 "neither NODE/PORT nor an",
		"r=10.0.1.2":         "name its ports",
		"r=v/tap0,10.0.1.":   `"10.0.1." is neither`,
		"r=v/tap0,10.0.1/24": "",
	} {
		_, err := ParseVM(arg)
		if why == "" { // a node may be named so
			if err != nil {
				t.Errorf("%s: %v", arg, err)
			}
		} else if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", arg, err, why)
		}
	}
}

func TestCheckVM(t *testing.T) {
	n := nstest.New(t, "a", "v", "sw")
	n.Veth("a", "e0", "v", "e0")
	n.Run("v", "ip", "tuntap", "add", "tap0", "mode", "tap")
	n.Veth("v", "e1", "sw", "p0")
	n.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	n.Run("sw", "ip", "link", "set", "p0", "master", "br0")
	topology := discover(t, n, nil, "a", "v")
	for arg, why := range map[string]string{
		"r=v/tap0":                   "",
		"a=v/tap0":                   "a node has that name",
		"r=v/tap1":                   "node v has no port tap1",
		"r=w/tap0":                   "there is no node w",
		"r=v/e0":                     "the other end of v/e0 is attached",
		"r=v/e1":                     "the other end of v/e1 is attached or on a bridge",
		"r=" + n.Name("sw") + "/br0": "radar found " + n.Name("sw") + "/br0 itself",
	} {
		vm, err := ParseVM(arg)
		if err != nil {
			t.Fatal(err)
		}
		err = topology.CheckVM(&vm)
		if why == "" && err != nil || why != "" && (!errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %v, want %q", arg, err, why)
		}
	}
}
