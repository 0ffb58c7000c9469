// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// localIn is what a Handle holds in one node.
//
// A netfilter link keeps its network namespace alive, and with it the interfaces of a
// container that has ended. So it is not pinned: who follows the domain holds it, lets
// go of a namespace that is gone (ReleaseGone), and when that process dies the kernel
// does. Without it such packets end as expired; nothing else changes. The program is held with
// it, and loaded for the first node that needs it.
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

// FollowRedirects attaches the program in the nodes that need it and takes it off others.
// It returns what failed and is new. Call it often: an agent that ends may still hold the
// hook when the next one begins.
func (h *Handle) FollowRedirects() (failed []string) {
	wanted, needed := make(map[uint16]bool), false
	for i := range h.Domain.Nodes {
		n := &h.Domain.Nodes[i]
		wanted[n.ID] = needsLocalIn(h.Domain, n)
		needed = needed || wanted[n.ID]
		if !wanted[n.ID] || h.localIn[n.ID] != nil {
			continue
		}
		l, err := h.attachLocalIn(topo.SpecOf(*n))
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
	if !needed {
		h.dropLocalIn()
	}
	return failed
}

// loadAgain is how long nothing is loaded that the kernel has refused: verifying it takes CPU.
const loadAgain = time.Minute

// loadLocalIn loads the program, unless the handle has it.
func (h *Handle) loadLocalIn() (err error) {
	if h.localInProg != nil || time.Since(h.localInTried) < loadAgain {
		return h.localInRefused
	}
	h.localInTried = time.Now()
	defer func() { h.localInRefused = err }()
	spec, err := program.DeliverSpec(h.Domain.Options, h.hashKeys())
	if err != nil {
		return err
	}
	c, err := h.loadLater(spec)
	if err != nil {
		return loader.Error("load "+program.LocalHook, err)
	}
	defer c.Close()
	h.localInProg = c.DetachProgram(bpfobj.DeliverProgRadarLocalIn)
	return nil
}

// dropLocalIn lets go of the program.
func (h *Handle) dropLocalIn() {
	if h.localInProg != nil {
		h.localInProg.Close()
		h.localInProg, h.localInTried = nil, time.Time{}
	}
}

// attachLocalIn attaches the program in one node.
func (h *Handle) attachLocalIn(spec topo.NodeSpec) (*localIn, error) {
	l := &localIn{spec: spec}
	if err := h.loadLocalIn(); err != nil {
		return nil, err
	}
	err := spec.Do(func() error {
		for _, ip6 := range []bool{false, true} {
			// Before all others: delivered means that the packet has arrived, whatever rules
			// for INPUT do with it.
			x, err := hook.Attach(h.localInProg, hook.Netfilter{IPv6: ip6, Hook: hook.LocalIn, Priority: hook.First})
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
