// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// What the nodes were named by is kept, with the domain's life; what names a node
// that is detached goes with it.
func TestSelectorsStay(t *testing.T) {
	l := newChain(t, program.HookTCX)
	watch := func(on bool) *bool { return &on }
	step := func(req AttachRequest, wantWatch bool, want ...string) {
		t.Helper()
		if _, err := Attach(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		d, err := domain.Load(l.domain)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(d.Selectors) != fmt.Sprint(want) || d.WatchContainers != wantWatch {
			t.Errorf("selectors %q, watch %v; want %q, %v", d.Selectors, d.WatchContainers, want, wantWatch)
		}
	}
	req := l.request("a", "r")
	req.Selectors = []string{l.Spec("a"), "netns:" + l.Name("r"), "docker:*"}
	step(req, false, req.Selectors...)
	step(AttachRequest{Domain: l.domain, Selectors: []string{"docker:*"}, WatchContainers: watch(true)}, true, req.Selectors...)
	step(AttachRequest{Domain: l.domain, Nodes: l.specs("b"), Selectors: []string{l.Spec("b")}}, true, append(req.Selectors, l.Spec("b"))...)
	l.detach("a") // named a=netns:...
	l.detach("r") // named without the name, r
	step(AttachRequest{Domain: l.domain, WatchContainers: watch(false)}, false, "docker:*", l.Spec("b"))
}

// Who only adds nodes does not bring a domain back that was detached meanwhile.
func TestAttachOnlyExtends(t *testing.T) {
	l := newLab(t, program.HookTCX, "a")
	_, err := Attach(t.Context(), AttachRequest{Domain: l.domain, Nodes: l.specs("a"), Extend: true})
	if !errors.Is(err, domain.ErrNotAttached) {
		t.Errorf("attached: %v, want %v", err, domain.ErrNotAttached)
	}
	if _, err := os.Stat(domain.Dir(l.domain)); !os.IsNotExist(err) {
		t.Errorf("a state directory is left: %v", err)
	}
}
