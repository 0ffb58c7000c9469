// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// queueHook is where the program stands that sees packets leave queues. It runs for
// every queue of the machine, so it is there only while a port needs it.
const queueHook = "tp_btf/qdisc_dequeue"

// hasQueue says whether packets can wait in the port's queue, where they bear what they
// are known by. At an edge they do not: they look as they do outside.
func hasQueue(p *domain.Port) bool {
	return !p.Removed && p.Queue != "" && p.Place == "" && p.Role == domain.Internal
}

// anyQueue says whether some port of the domain has such a queue.
func anyQueue(d *domain.Domain) bool {
	return slices.ContainsFunc(d.Ports, func(p domain.Port) bool { return hasQueue(&p) })
}

// followQueues attaches the queue hook for the first port that has a queue, and takes it
// off when the last one has none. The pin says whether it is there: a process can be
// killed between that and the description. Where the kernel refuses it, links are measured
// together with the queues before them, and that is told of every queue once.
func (a *applier) followQueues() error {
	d := a.c.next
	_, err := os.Stat(a.h.queuePin())
	wanted, there := anyQueue(d), err == nil
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
			if added := a.c.queues(); len(added) > 0 {
				a.warnings = append(a.warnings, fmt.Sprintf("waits in queues are not measured but counted to the link behind (%s): %v", strings.Join(added, ", "), err))
			}
			return nil
		}
		a.undo.add(func() { _ = a.h.removeQueueHook() })
	}
	if wanted {
		d.QueueHook = queueHook
	}
	return nil
}

func (h *Handle) queuePin() string { return filepath.Join(domain.PinDir(h.Domain.Name), queueLink) }

func (h *Handle) removeQueueHook() error { return hook.Detach(h.queuePin()) }

// attachQueueHook loads the program, which uses the domain's maps, and pins its link.
func (h *Handle) attachQueueHook() error {
	spec, err := queueSpec(h.Domain.Options, h.hashKeys())
	if err != nil {
		return err
	}
	shared := make(map[string]*ebpf.Map)
	for name := range spec.Maps {
		if strings.HasPrefix(name, ".") {
			continue // the constants, its own
		}
		m, err := openMap(h.Domain.Name, name)
		if err != nil {
			return err
		}
		defer m.Close()
		shared[name] = m
	}
	if err := raiseMemlock(); err != nil {
		return err
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return bpfError("load "+queueHook, err)
	}
	defer c.Close()
	return linkError(queueHook, hook.AttachPinned(c.Programs[bpfobj.TraceProgRadarQdiscDequeue], hook.Tracing(queueHook), h.queuePin()))
}

// queueSpec is the program with the constants that the domain's other programs have, but
// for those about functions that free packets, which it does not ask.
func queueSpec(stored domain.Options, keys HashKeys) (*ebpf.CollectionSpec, error) {
	o := optionsOf(stored)
	l, err := o.Layout()
	if err != nil {
		return nil, err
	}
	spec, err := loadTrace(bpfobj.TraceProgRadarQdiscDequeue)
	if err != nil {
		return nil, fault.NotLoaded.Errorf("read BPF object: %w", err)
	}
	if err := setConstants(spec, constantsOf(o, l, Features{}, quietFuncs{}, keys), make(map[string]bool)); err != nil {
		return nil, err
	}
	return spec, sizeMaps(spec, o, l)
}

// loadTrace returns the object of tracing programs with one of them.
func loadTrace(name string) (*ebpf.CollectionSpec, error) {
	spec, err := bpfobj.LoadTrace()
	if err != nil {
		return nil, err
	}
	for other := range spec.Programs {
		if other != name {
			delete(spec.Programs, other)
		}
	}
	return spec, nil
}
