// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// TestTCXFirst: our program comes before those that were there.
func TestTCXFirst(t *testing.T) {
	dir, all := newPins(t), ways(t)
	if all[0] != ByTCX {
		return // TestProbe says whether the kernel should have it
	}
	p := newPair(t)
	index, ours, others := p.Index("b", "e0"), newTC(t, tcNext), newTC(t, tcNext)
	id := programID(t, ours)
	p.in("b", func() error {
		other, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: others, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return err
		}
		defer other.Close()
		if err := AttachPinned(ours, TCX{Ifindex: index, Direction: Egress}, filepath.Join(dir, "ours")); err != nil {
			return err
		}
		found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress})
		if err == nil && (len(found.Programs) != 2 || found.Programs[0].ID != id) {
			t.Errorf("programs %+v, ours is %d", found.Programs, id)
		}
		return err
	})
}

// TestTCXLast: our program comes behind those that were there.
func TestTCXLast(t *testing.T) {
	if ways(t)[0] != ByTCX {
		return // TestProbe says whether the kernel should have it
	}
	p := newPair(t)
	index, last, others := p.Index("b", "e0"), newTC(t, tcNext), newTC(t, tcNext)
	id := programID(t, last)
	p.in("b", func() error {
		for _, first := range []bool{false, true} { // Attach without Last goes before all
			other, err := Attach(others, TCX{Ifindex: index, Direction: Ingress})
			if err != nil {
				return err
			}
			ours, err := Attach(last, TCX{Ifindex: index, Direction: Ingress, Last: !first})
			if err != nil {
				return err
			}
			found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXIngress})
			if err == nil && (len(found.Programs) != 2 || (found.Programs[0].ID == id) != first) {
				t.Errorf("first %v: programs %+v, ours is %d", first, found.Programs, id)
			}
			if err := errors.Join(err, ours.Close(), other.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestPriority: filters of several priorities stand beside each other, and the lowest one sees a packet
// first: what that one lets pass ends at the second one.
func TestPriority(t *testing.T) {
	p := newPair(t)
	first := Filter{Ifindex: p.Index("b", "e0"), Name: "first"}
	second, third := first, first
	second.Name, second.Priority = "second", 2
	third.Name, third.Priority = "third", 2
	next, drop := newTC(t, tcNext), newTC(t, tcDrop)
	p.in("b", func() error {
		if _, err := EnsureClsact(first.Ifindex); err != nil {
			return err
		}
		return errors.Join(second.Add(drop), first.Add(next))
	})
	p.isCut("the second filter drops")
	p.in("b", func() error {
		if err := third.Add(next); !errors.Is(err, ErrBusy) {
			t.Errorf("a third one of the same priority: %v", err)
		}
		found, err := Filters(func(name string) bool { return name == "first" || name == "second" })
		if !slices.ContainsFunc(found, func(f Filter) bool { return f == second }) || len(found) != 2 {
			t.Errorf("filters %+v", found)
		}
		return errors.Join(err, second.Remove())
	})
	p.reaches("the second filter is off")
	out := p.Run("b", "tc", "filter", "show", "dev", "e0", "ingress")
	if !strings.Contains(out, "pref 1 ") || strings.Contains(out, "pref 2 ") {
		t.Errorf("filters:\n%s", out)
	}
}
