// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"os"
	"strings"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// followQueues attaches the queue hook for the first port that has a queue, and takes it
// off when the last one has none. The pin says whether it is there: a process can be
// killed between that and the description. Where the kernel refuses it, links are measured
// together with the queues before them, and that is told of every queue once.
func (a *applier) followQueues() error {
	d := a.c.Next
	defer a.dateQueues()
	_, err := os.Stat(a.h.queuePin())
	wanted, there := merge.AnyQueue(d), err == nil
	d.QueueHook = ""
	switch {
	case wanted == there:
	case !wanted:
		if err := a.h.removeQueueHook(); err != nil {
			return err
		}
		a.undo.add(func() { _ = a.h.attachQueueHook() })
	default:
		if err := a.h.attachQueueHook(); err != nil {
			if added := a.c.Queues(); len(added) > 0 {
				a.warnings = append(a.warnings, fmt.Sprintf("waits in queues are not measured but counted to the link behind (%s): %v", strings.Join(added, ", "), err))
			}
			return nil
		}
		a.undo.add(func() { _ = a.h.removeQueueHook() })
	}
	if wanted {
		d.QueueHook = program.QueueHook
	}
	return nil
}

// dateQueues notes from when on the queues of ports are followed. Records say of no earlier packet
// that it was overlooked as it left one.
func (a *applier) dateQueues() {
	now := clock.Monotonic()
	for i := range a.c.Next.Ports {
		p := &a.c.Next.Ports[i]
		was := a.c.Was(p.ID)
		switch {
		case !merge.HasQueue(p):
			p.QueueSince = 0
		case was == nil || !merge.HasQueue(was) || was.Queue != p.Queue || was.QueueSince == 0:
			p.QueueSince = now
		}
	}
}

func (h *Handle) queuePin() string {
	return domain.Kind.LinkPin(h.Domain.Name, "qdisc_dequeue")
}

func (h *Handle) removeQueueHook() error { return hook.Detach(h.queuePin()) }

// attachQueueHook loads the program, which uses the domain's maps, and pins its link.
func (h *Handle) attachQueueHook() error {
	spec, err := program.QueueSpec(h.Domain.Options, h.hashKeys())
	if err != nil {
		return err
	}
	c, err := h.loadLater(spec)
	if err != nil {
		return loader.Error("load "+program.QueueHook, err)
	}
	defer c.Close()
	return loader.LinkError(program.QueueHook, hook.AttachPinned(c.Programs[bpfobj.TraceProgRadarQdiscDequeue], hook.Tracing(program.QueueHook), h.queuePin()))
}
