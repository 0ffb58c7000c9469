// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// localInProg is the pin of that program.
const localInProg = "prog-local_in"

// localIn is what a Handle holds in one node.
//
// A netfilter link keeps its network namespace alive, and with it the interfaces of a
// container that has ended. So it is not pinned: who follows the domain holds it, lets
// go of a namespace that is gone (ReleaseGone), and when that process dies the kernel
// does. Without it such packets end as expired; nothing else changes.
type localIn struct {
	spec  topo.NodeSpec
	links []io.Closer
}

func (l *localIn) close() {
	for _, x := range l.links {
		x.Close()
	}
}

// needsLocalIn says whether packets that are addressed to others may end in a node, and
// can be told there by their mark.
func needsLocalIn(d *domain.Domain, n *domain.Node) bool {
	return d.LocalHook != "" && !n.Removed && !n.Auto && n.Redirects && n.Apart == "" && !merge.HeaderNodes(d)(n.Name)
}

// pinLocalIn pins the program for whoever will follow the domain, if the kernel takes it.
func (p *plan) pinLocalIn() error {
	prog := p.loaded.Progs[bpfobj.DeliverProgRadarLocalIn]
	if prog == nil {
		return nil
	}
	if err := prog.Pin(filepath.Join(domain.PinDir(p.change.Next.Name), localInProg)); err != nil {
		return loader.Error("pin program", err)
	}
	p.change.Next.LocalHook = program.LocalHook
	return nil
}

// FollowRedirects attaches the program in the nodes that need it and takes it off others.
// It returns what failed and is new. Call it often: an agent that ends may still hold the
// hook when the next one begins.
func (h *Handle) FollowRedirects() (failed []string) {
	wanted := make(map[uint16]bool)
	for i := range h.Domain.Nodes {
		n := &h.Domain.Nodes[i]
		wanted[n.ID] = needsLocalIn(h.Domain, n)
		if !wanted[n.ID] || h.localIn[n.ID] != nil {
			continue
		}
		l, err := attachLocalIn(h.Domain.Name, topo.SpecOf(*n))
		text := ""
		switch {
		case err == nil:
			if h.localIn == nil {
				h.localIn = make(map[uint16]*localIn)
			}
			h.localIn[n.ID] = l
		case !errors.Is(err, topo.ErrGone):
			text = fmt.Sprintf("node %s: packets that it redirects to itself end as expired: %v", n.Name, err)
		}
		if text != "" && text != h.localInFailed[n.ID] {
			failed = append(failed, text)
		}
		if h.localInFailed == nil {
			h.localInFailed = make(map[uint16]string)
		}
		h.localInFailed[n.ID] = text
	}
	for id, l := range h.localIn {
		if !wanted[id] {
			l.close()
			delete(h.localIn, id)
		}
	}
	return failed
}

// attachLocalIn attaches the domain's program in one node.
func attachLocalIn(domainName string, spec topo.NodeSpec) (*localIn, error) {
	l := &localIn{spec: spec}
	prog, err := ebpf.LoadPinnedProgram(filepath.Join(domain.PinDir(domainName), localInProg), nil)
	if err != nil {
		return nil, loader.Error("open program", err)
	}
	defer prog.Close()
	err = spec.Do(func() error {
		for _, ip6 := range []bool{false, true} {
			// Before all others: delivered means that the packet has arrived, whatever rules
			// for INPUT do with it.
			x, err := hook.Attach(prog, hook.Netfilter{IPv6: ip6, Hook: hook.LocalIn, Priority: hook.First})
			if errors.Is(err, unix.EAFNOSUPPORT) {
				continue // a kernel without IPv6
			}
			if err != nil {
				return loader.LinkError(program.LocalHook, err)
			}
			l.links = append(l.links, x)
		}
		return nil
	})
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// ReleaseGone lets go of namespaces that are gone but for us, and of nodes that others
// have detached. Call it often: until then `ip netns del` removes no interface.
func (h *Handle) ReleaseGone() {
	for id, l := range h.localIn {
		n := h.Domain.NodeByID(id)
		ns, err := l.spec.Open()
		if err == nil {
			ns.Close()
		}
		if n == nil || n.Removed || errors.Is(err, topo.ErrGone) {
			l.close()
			delete(h.localIn, id)
		}
	}
}
