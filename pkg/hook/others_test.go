// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/lab/test/need"
)

// TestOthers: programs, and filters that rewrite, are found with their place; classifiers that change nothing are not.
func TestOthers(t *testing.T) {
	if !Probe().TCX {
		need.Lack(t, need.Kernel, "TCX: Linux 6.6")
	}
	p := newPair(t)
	index := p.Index("b", "e0")
	ours := func(name string) bool { return strings.HasPrefix(name, "rdr_") }
	p.Run("b", "tc", "qdisc", "add", "dev", "e0", "clsact")
	p.Run("b", "tc", "filter", "add", "dev", "e0", "egress", "prio", "7", "protocol", "ip", "u32", "match", "u8", "0", "0", "classid", "1:1")
	p.Run("b", "tc", "filter", "add", "dev", "e0", "egress", "prio", "8", "protocol", "ip", "u32", "match", "u8", "0", "0", "action", "mirred", "egress", "mirror", "dev", "lo")
	p.in("b", func() error {
		for _, at := range []struct {
			name   string
			anchor link.Anchor
		}{{"rdr_out", link.Head()}, {"first", link.Head()}, {"last", link.Tail()}} {
			l, err := link.AttachTCX(link.TCXOptions{Program: named(t, at.name), Interface: index, Attach: TCX{Direction: Egress}.kind(), Anchor: at.anchor})
			if err != nil {
				return err
			}
			t.Cleanup(func() { l.Close() })
		}
		f := Filter{Ifindex: index, Direction: Egress, Name: "somebody:x"}
		if err := f.Add(named(t, "filter")); err != nil {
			return err
		}
		if err := (Filter{Ifindex: index, Direction: Egress, Name: "rdr_x", Priority: 2}).Add(named(t, "filter2")); err != nil {
			return err
		}
		want := []Other{{`program "first"`, true}, {`program "last"`, false}, {`filter bpf "somebody:x"`, false}}
		if got := Others(index, Egress, ours); !slices.Equal(got, want) {
			t.Errorf("egress: %v, want %v", got, want)
		}
		// Few kernels at hand have the actions that do rewrite.
		defer func(was []string) { rewriting = was }(rewriting)
		rewriting = append(rewriting, "mirred")
		want = append(want, Other{"filter u32 with action mirred", false})
		if got := Others(index, Egress, ours); !slices.Equal(got, want) {
			t.Errorf("egress, with actions: %v, want %v", got, want)
		}
		if got := Others(index, Ingress, ours); len(got) > 0 {
			t.Errorf("ingress: %v", got)
		}
		return nil
	})
}
