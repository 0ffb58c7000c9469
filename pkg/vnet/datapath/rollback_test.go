// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// countdown is a context that ends when it was asked a number of times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestRollbackOfNewDomain(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		before := l.tc(chain...)
		for nodes := range 3 {
			_, err := Attach(&countdown{t.Context(), nodes}, l.request(chain...))
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("attach that ends after %d nodes: %v", nodes, err)
			}
			l.wantNoFiles()
			if after := l.tc(chain...); after != before {
				t.Errorf("after %d nodes: tc before:\n%s\nand after:\n%s", nodes, before, after)
			}
			wantNoTCX(t, l)
		}
		l.ping()
	})
}

// wantNoTCX fails the test if any program is on a TCX hook of the chain.
func wantNoTCX(t *testing.T, l *lab) {
	t.Helper()
	for _, at := range []struct{ node, port string }{{"a", "e0"}, {"r", "e0"}, {"r", "e1"}, {"b", "e0"}} {
		wantNoTCXAt(t, l, at.node, at.port)
	}
}

func wantNoTCXAt(t *testing.T, l *lab, node, port string) {
	t.Helper()
	index := l.Index(node, port)
	for side, at := range map[string]ebpf.AttachType{"in": ebpf.AttachTCXIngress, "out": ebpf.AttachTCXEgress} {
		err := l.specs(node)[0].Do(func() error {
			result, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: at})
			if err == nil && len(result.Programs) > 0 {
				t.Errorf("programs left on %s/%s %s", node, port, side)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRollbackOfExtension(t *testing.T) {
	need.Nightly(t) // TestRollbackOfNewDomain stays
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		l.attach("a", "r")
		description := readDescription(t, l)
		flags, tc := l.flags(), l.tc(chain...)
		_, err := Attach(&countdown{t.Context(), 0}, l.request("b"))
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("attach: %v", err)
		}
		if diff := cmp.Diff(description, readDescription(t, l)); diff != "" {
			t.Errorf("description (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(flags, l.flags()); diff != "" {
			t.Errorf("flags (-before +after):\n%s", diff)
		}
		if after := l.tc(chain...); after != tc {
			t.Errorf("tc before:\n%s\nand after:\n%s", tc, after)
		}
		l.ping()
	})
}

func readDescription(t *testing.T, l *lab) map[string]any {
	t.Helper()
	b, err := os.ReadFile(domain.File(l.domain, domain.Description))
	if err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// A kill in the middle leaves pins without a description, or one without a lease.
func TestHalfAttached(t *testing.T) {
	need.Nightly(t) // pkg/cli/domain has half attached domains, too
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		before := l.tc(chain...)
		mend := "«detach ‹domain› " + l.domain
		for _, c := range []struct {
			what  string
			spoil func()
		}{
			{"no description", func() { remove(t, domain.File(l.domain, domain.Description)) }},
			{"no ring", func() { remove(t, filepath.Join(domain.PinDir(l.domain), "ring")) }},
		} {
			l.attach(chain...)
			objects := l.objects()
			c.spoil()
			if _, err := Open(l.domain); err == nil || !strings.Contains(err.Error(), mend) {
				t.Errorf("%s: Open: %v", c.what, err)
			}
			if _, err := Attach(t.Context(), l.request("a")); err == nil || !strings.Contains(err.Error(), mend) {
				t.Errorf("%s: Attach: %v", c.what, err)
			}
			l.detach()
			l.wantNothing(objects)
			wantNoTCX(t, l)
			if after := l.tc(chain...); strings.Contains(after, "radar:") || hook == program.HookTCX && after != before {
				t.Errorf("%s: tc after detach:\n%s", c.what, after)
			}
			l.ping()
		}
	})
}

// TestDamagedDescription: whatever stands in the description, detaching ends without a panic
// and leaves nothing.
func TestDamagedDescription(t *testing.T) {
	l := newChain(t, program.HookTCX)
	option := func(name string, value any) func(d map[string]any) {
		return func(d map[string]any) { d["options"].(map[string]any)[name] = value }
	}
	// Attaching takes long: only make nightly detaches what every spoiled description describes.
	detach := map[string]bool{"more slots": true, "no options": true}
	var objects kernelObjects
	attached := false
	for what, spoil := range map[string]func(d map[string]any){
		"no slots":           option("slots", 0),
		"more slots":         option("slots", domain.MaxSlots),
		"fewer slots":        option("slots", domain.MinSlots), // it is attached with twice as many
		"longer slots":       option("slot_bytes", 512),
		"no bytes in a slot": option("slot_bytes", 0),
		"other keys":         option("keys", domain.MaxKeys),
		"no timeout":         option("timeout_ns", 0),
		"no options":         func(d map[string]any) { delete(d, "options") },
		"no nodes":           func(d map[string]any) { d["nodes"] = nil },
		"another name":       func(d map[string]any) { d["name"] = "../../etc" },
		"another version":    func(d map[string]any) { d["version"], d["nodes"] = domain.Version+1, nil },
		"a list for nodes":   func(d map[string]any) { d["nodes"] = []any{nil, nil} },
	} {
		l.opts.Slots = 2 * domain.MinSlots
		if !attached {
			l.attach(chain...)
			objects = l.objects()
		}
		file := domain.File(l.domain, domain.Description)
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := readDescription(t, l)
		spoil(d)
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(l.domain); err == nil || !strings.Contains(err.Error(), "«detach ‹domain› "+l.domain) {
			t.Errorf("%s: Open: %v", what, err)
		}
		other := d["version"] == domain.Version+1
		if attached = !other && !detach[what] && !need.IsNightly(t); attached {
			if err := os.WriteFile(file, good, 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if other {
			if _, err := RemoveOther(l.domain); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		} else if _, err := Detach(t.Context(), DetachRequest{Domain: l.domain}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		l.wantNothing(objects)
	}
	l.ping()
}

func TestInterruptedAttach(t *testing.T) {
	l := newChain(t, program.HookTCX)
	l.attach(chain...)
	h := l.open()
	h.controlPage().LeaseNs = 0 // nobody has renewed it
	if _, err := Attach(t.Context(), l.request("a")); err == nil || !strings.Contains(err.Error(), "«detach ‹domain›") {
		t.Errorf("Attach to a domain that was never finished: %v", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
