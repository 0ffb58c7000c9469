// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// addForeignFilter puts someone else's program on r/e1.
func addForeignFilter(t *testing.T, l *lab, prio uint16) {
	t.Helper()
	p := newForeign(t)
	index := l.Index("r", "e1")
	err := l.specs("r")[0].Do(func() error {
		if _, err := hook.EnsureClsact(index); err != nil {
			return err
		}
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 7, Priority: prio, Protocol: unix.ETH_P_ALL,
			},
			Fd: p.FD(), Name: "someone", DirectAction: true,
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A filter of our priority is named, and nothing is attached anywhere.
func TestForeignFilterOfOurPriority(t *testing.T) {
	l := newChain(t, program.HookClsact)
	addForeignFilter(t, l, hook.FilterPriority)
	before := l.tc(chain...)
	_, err := Attach(t.Context(), l.request(chain...))
	if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "someone") || !strings.Contains(err.Error(), "r/e1") {
		t.Errorf("attach: %v", err)
	}
	l.wantNoFiles()
	if after := l.tc(chain...); after != before {
		t.Errorf("tc before:\n%s\nand after:\n%s", before, after)
	}
}

// What others have, before or after us, stays.
func TestForeignFilterStays(t *testing.T) {
	l := newChain(t, program.HookClsact)
	addForeignFilter(t, l, 5)
	before := l.tc(chain...)
	l.attach(chain...)
	l.ping()
	l.detach()
	if after := l.tc(chain...); after != before {
		t.Errorf("tc before:\n%s\nand after:\n%s", before, after)
	}

	l = newChain(t, program.HookClsact)
	l.Run("a", "tc", "qdisc", "add", "dev", "e0", "clsact") // empty, but not ours
	before = l.tc(chain...)
	l.attach(chain...)
	l.detach()
	if after := l.tc(chain...); after != before {
		t.Errorf("tc before:\n%s\nand after:\n%s", before, after)
	}

	l = newChain(t, program.HookClsact)
	l.attach(chain...)
	addForeignFilter(t, l, 5) // on the qdisc that radar made
	l.detach()
	after := l.tc(chain...)
	if strings.Count(after, "qdisc clsact") != 1 || strings.Count(after, "someone") == 0 || strings.Contains(after, "radar:") {
		t.Errorf("tc after:\n%s", after)
	}
}

// An ingress qdisc has no egress, and clsact does not fit beside it.
func TestIngressQdiscBlocks(t *testing.T) {
	l := newChain(t, program.HookClsact)
	l.Run("r", "tc", "qdisc", "add", "dev", "e1", "ingress")
	before := l.tc(chain...)
	_, err := Attach(t.Context(), l.request(chain...))
	if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "r/e1") || !strings.Contains(err.Error(), "ingress qdisc") {
		t.Errorf("attach: %v", err)
	}
	if after := l.tc(chain...); after != before {
		t.Errorf("tc before:\n%s\nand after:\n%s", before, after)
	}
	l.wantNoFiles()
}
