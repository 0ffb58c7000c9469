// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
	"github.com/vnetradar/radar/pkg/vnet/topo/readers"
)

// switchEvery is how often a node is looked at, at most: who has which socket open is asked of
// all processes of the machine.
const switchEvery = 10 * time.Second

// switches finds the processes that forward packets in nodes, by packet sockets. The records
// say in which nodes that happens: packets go on though the kernel has dropped its copies.
type switches struct {
	name string
	log  *slog.Logger
	once resident.Logger
	// nodes are those where packets were forwarded so.
	nodes  chan []uint16
	looked map[uint16]time.Time
}

func newSwitches(name string, log *slog.Logger) *switches {
	return &switches{name: name, log: log, once: resident.Logger{Log: log}, nodes: make(chan []uint16, 1), looked: make(map[uint16]time.Time)}
}

// put hands nodes over, and does not wait: if there is no room, more packets will say the same.
func (s *switches) put(nodes []uint16) {
	if len(nodes) == 0 {
		return
	}
	select {
	case s.nodes <- nodes:
	default:
	}
}

func (s *switches) run(ctx context.Context) error {
	ticker := time.NewTicker(switchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case nodes := <-s.nodes:
			s.look(nodes)
		case <-ticker.C:
			s.look(nil)
		}
	}
}

// look finds out who forwards in nodes, and which processes that did so have ended.
func (s *switches) look(nodes []uint16) {
	d, err := domain.Load(s.name)
	if err != nil {
		return // the loop that follows the ring notices a domain that is gone
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		forwards := slices.Contains(nodes, n.ID)
		if n.Removed || !forwards && n.Switch == "" || time.Since(s.looked[n.ID]) < switchEvery {
			continue
		}
		s.looked[n.ID] = time.Now()
		s.settle(n, readers.Find([]topo.NodeSpec{topo.SpecOf(*n)}), forwards)
	}
}

// settle notes which of the readers forwards in node n: the one that reads most interfaces,
// unless the one that is known is still there.
func (s *switches) settle(n *domain.Node, list []readers.Reader, forwards bool) {
	var r readers.Reader
	i := slices.IndexFunc(list, func(r readers.Reader) bool { return r.Name == n.Switch })
	switch {
	case i >= 0:
		return
	case len(list) > 0 && forwards:
		r = list[0]
	case len(list) > 0:
		return // another one, of which nothing is known
	}
	changed, err := datapath.SetSwitch(s.name, n.ID, r.Name)
	if errors.Is(err, domain.ErrNotAttached) {
		return
	}
	s.once.Warn("note who forwards packets", err)
	switch {
	case !changed:
	case r.Name == "":
		s.log.Info(fmt.Sprintf("node %s: %s does not read its interfaces any more", n.Name, n.Switch))
	default:
		s.log.Info(fmt.Sprintf("node %s: %s forwards its packets: a packet whose content it changes gets its true header back as it leaves, and its story ends there, as left; one that it does not forward is lost as %s",
			n.Name, r.Name, record.NotForwarded), "pid", r.PID)
	}
}
