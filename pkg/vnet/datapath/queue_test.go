// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"os"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

const (
	tbf = "tbf rate 10mbit burst 10kb limit 100kb"
	htb = "htb default 1"

	queuePort = internalPort + "|queue"
)

// wantHook checks that the program that sees packets leave queues is attached, or not,
// and that the description says so.
func (l *lab) wantHook(on bool) {
	l.t.Helper()
	h := l.open()
	defer h.Close()
	want := ""
	if on {
		want = program.QueueHook
	}
	if got := h.Domain.QueueHook; got != want {
		l.t.Errorf("the description says %q of the queue hook, want %q", got, want)
	}
	if _, err := os.Stat(h.queuePin()); (err == nil) != on {
		l.t.Errorf("pin of the queue hook: %v, want it there: %v", err, on)
	}
}

// The hook is there while a port inside the domain has a queue, and no longer.
func TestQueueHook(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		queue := func(what, node, port string, kind ...string) {
			l.Run(node, append([]string{"tc", "qdisc", what, "dev", port, "root"}, kind...)...)
		}
		queue("add", "r", "e1", strings.Fields(tbf)...)
		l.attach(chain...)
		l.wantHook(true)
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+queuePort)
		l.ping()
		wantChanges(t, l.refresh(), Changes{})

		queue("add", "a", "e0", strings.Fields(htb)...)
		wantChanges(t, l.refresh(), Changes{Queues: []string{"a/e0: htb"}})
		queue("del", "r", "e1")
		wantChanges(t, l.refresh(), Changes{Queues: []string{"r/e1: none"}})
		l.wantHook(true)
		l.wantFlags("a/e0 "+queuePort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort)
		queue("del", "a", "e0")
		wantChanges(t, l.refresh(), Changes{Queues: []string{"a/e0: none"}})
		l.wantHook(false)

		queue("add", "b", "e0", strings.Fields(tbf)...)
		wantChanges(t, l.refresh(), Changes{Queues: []string{"b/e0: tbf"}})
		l.wantHook(true)
		l.ping()
		l.detachAll()
	})
}

// A process that is killed leaves a description that is ahead of the hook, or behind it.
func TestQueueHookAfterKill(t *testing.T) {
	l := newChain(t, program.HookTCX)
	l.Run("r", append([]string{"tc", "qdisc", "add", "dev", "e1", "root"}, strings.Fields(tbf)...)...)
	l.attach(chain...)
	l.wantHook(true)
	for _, c := range []struct {
		name      string
		described bool
		pinned    bool
	}{
		{"before the hook", false, false}, {"after the hook", false, true}, {"after the hook is gone", true, false},
	} {
		h := l.open()
		if !c.described {
			h.Domain.QueueHook = ""
		}
		if err := h.Domain.Save(); err != nil {
			t.Fatal(err)
		}
		if !c.pinned {
			if err := h.removeQueueHook(); err != nil {
				t.Fatal(err)
			}
		}
		wantChanges(t, l.refresh(), Changes{})
		if l.wantHook(true); t.Failed() {
			t.Fatal("killed " + c.name)
		}
	}
	l.Run("r", "tc", "qdisc", "del", "dev", "e1", "root")
	h := l.open()
	h.Domain.QueueHook = "" // killed after the hook
	if err := h.Domain.Save(); err != nil {
		t.Fatal(err)
	}
	wantChanges(t, l.refresh(), Changes{Queues: []string{"r/e1: none"}})
	l.wantHook(false)
}

// What waits at an edge looks as it does outside: nothing knows it there.
func TestQueueAtEdge(t *testing.T) {
	l := newChain(t, program.HookTCX)
	l.Run("r", append([]string{"tc", "qdisc", "add", "dev", "e1", "root"}, strings.Fields(tbf)...)...)
	l.attach("a", "r")
	l.wantHook(false)
	l.attach("b") // now it is inside
	l.wantHook(true)
	l.detach("b")
	l.wantHook(false)
}
