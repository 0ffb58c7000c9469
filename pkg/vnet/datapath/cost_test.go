// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// The hooks of a domain have run for the packets that passed its ports while the kernel measured,
// and another domain's have not.
func TestHookCosts(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newLab(t, hook, "a", "r", "b", "bare")
		l.Chain()
		l.Run("r", "sysctl", "-qw", "net.ipv4.ip_forward=1")
		l.attach("a", "r", "b")
		other := *l
		other.domain += "x"
		other.attach("bare")
		t.Cleanup(func() {
			if _, err := Detach(context.Background(), DetachRequest{Domain: other.domain, NoDrain: true}); err != nil {
				t.Error(err)
			}
		})
		on, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
		if err != nil {
			t.Fatal(err)
		}
		defer on.Close()
		l.ping()
		find := func(l *lab, hook string) HookCost {
			t.Helper()
			costs, err := l.open().HookCosts()
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(costs, func(c HookCost) bool { return c.Hook == hook }); i >= 0 {
				return costs[i]
			}
			return HookCost{}
		}
		for _, hook := range []string{"ingress", "egress"} {
			if c := find(l, hook); c.Runs < 12 || c.Time <= 0 { // three pings, both ways, two links
				t.Errorf("%s: %+v, want 12 runs at least", hook, c)
			}
			if c := find(&other, hook); c.Runs != 0 {
				t.Errorf("%s of a domain without ports: %+v", hook, c)
			}
		}
	})
}
