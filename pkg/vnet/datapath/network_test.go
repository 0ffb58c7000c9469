// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// The name of a bridge's network stays while others join, and goes when the interface is another
// one by name.
func TestSetNetworks(t *testing.T) {
	l := newBridgeLab(t, program.HookAuto)
	if _, err := SetNetworks(l.domain, map[uint16]string{1: "x"}); !errors.Is(err, domain.ErrNotAttached) {
		t.Errorf("without a domain: %v", err)
	}
	l.attach("a")
	bridge := func() *domain.Port {
		t.Helper()
		d := l.open().Domain
		i := slices.IndexFunc(d.Ports, func(p domain.Port) bool { return p.Place == domain.Bridge && !p.Removed })
		if i < 0 {
			t.Fatalf("no bridge: %+v", d.Ports)
		}
		return &d.Ports[i]
	}
	names := make(map[uint16]string)
	for _, p := range l.open().Domain.Ports { // all but the bridge are none
		names[p.ID] = "shop"
	}
	for _, want := range []bool{true, false} {
		if changed, err := SetNetworks(l.domain, names); err != nil || changed != want {
			t.Errorf("changed %v, %v; want %v", changed, err, want)
		}
	}
	for _, p := range l.open().Domain.Ports {
		if (p.Network != "") != (p.Place == domain.Bridge) {
			t.Errorf("%+v", p)
		}
	}
	l.attach("b")
	if p := bridge(); p.Network != "shop" || p.Name != "br0" {
		t.Errorf("when another node joins: %+v", p)
	}
	l.Run("sw", "ip", "link", "set", "br0", "down")
	l.Run("sw", "ip", "link", "set", "br0", "name", "br7")
	l.Run("sw", "ip", "link", "set", "br7", "up")
	l.refresh()
	if p := bridge(); p.Network != "" || p.Name != "br7" {
		t.Errorf("renamed: %+v", p)
	}
}
