// SPDX-License-Identifier: Apache-2.0

// Command peer puts on a chain of network namespaces what radar is compared with, until it
// is ended or its standard input is:
//
//	peer nop NETNS...                 programs that do nothing, on radar's hooks
//	peer inband ADDRESS NETNS... SINK in-band telemetry of what goes to that IPv4 address:
//	                                  each node measures, the sink takes it out
//
// NETNS is a name as of ip netns. It prints "ready" when all is attached, and at the end
// what was counted, as JSON. It needs root and Linux 6.6 (TCX).
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/experiments/peer/inband"
	"github.com/vnetradar/radar/pkg/host"
)

const usage = "usage: peer nop NETNS... | peer inband ADDRESS NETNS... SINK"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	p := &peer{}
	defer p.close()
	var err error
	switch {
	case len(args) >= 2 && args[0] == "nop":
		err = p.nop(args[1:])
	case len(args) >= 4 && args[0] == "inband":
		err = p.inband(args[1], args[2:])
	default:
		return errors.New(usage)
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	p.read(ctx)
	return p.summary()
}

// peer is what is attached.
type peer struct {
	links   []link.Link
	objects *inband.InbandObjects
	reports uint64 // read from the ring buffer
	closers []io.Closer
}

func (p *peer) close() {
	for _, l := range p.links {
		l.Close()
	}
	for _, c := range p.closers {
		c.Close()
	}
}

func (p *peer) nop(nodes []string) error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "nop", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}, // TCX_NEXT
	})
	if err != nil {
		return fmt.Errorf("load nop: %w", err)
	}
	p.closers = append(p.closers, prog)
	for _, node := range nodes {
		if err := p.attach(node, prog, prog); err != nil {
			return err
		}
	}
	return nil
}

// inband attaches to all nodes but the last, which is the sink.
func (p *peer) inband(address string, nodes []string) error {
	addr, err := netip.ParseAddr(address)
	if err != nil || !addr.Is4() {
		return fmt.Errorf("%q is no IPv4 address", address)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	spec, err := inband.LoadInband()
	if err != nil {
		return err
	}
	octets := addr.As4()
	if err := spec.Variables[inband.InbandVarDestination].Set(binary.NativeEndian.Uint32(octets[:])); err != nil {
		return fmt.Errorf("set %s: %w", inband.InbandVarDestination, err)
	}
	p.objects = &inband.InbandObjects{}
	if err := spec.LoadAndAssign(p.objects, nil); err != nil {
		return fmt.Errorf("load programs: %w", err)
	}
	p.closers = append(p.closers, p.objects)
	last := len(nodes) - 1
	if err := p.attach(nodes[last], p.objects.InbandSink, nil); err != nil {
		return err
	}
	for _, node := range nodes[:last] {
		if err := p.attach(node, p.objects.InbandIngress, p.objects.InbandEgress); err != nil {
			return err
		}
	}
	return nil
}

// attach attaches to all veths of a namespace; a program may be nil.
func (p *peer) attach(node string, ingress, egress *ebpf.Program) error {
	ns, err := netns.GetFromName(node)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", node, err)
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", node, err)
	}
	defer handle.Close()
	devices, err := handle.LinkList()
	if err != nil {
		return fmt.Errorf("interfaces of %s: %w", node, err)
	}
	return host.InNetns(ns, func() error {
		for _, d := range devices {
			if d.Type() != "veth" {
				continue
			}
			for _, hook := range []struct {
				prog *ebpf.Program
				kind ebpf.AttachType
			}{{ingress, ebpf.AttachTCXIngress}, {egress, ebpf.AttachTCXEgress}} {
				if hook.prog == nil {
					continue
				}
				l, err := link.AttachTCX(link.TCXOptions{Interface: d.Attrs().Index, Program: hook.prog, Attach: hook.kind})
				if err != nil {
					return fmt.Errorf("attach to %s of %s (TCX needs Linux 6.6): %w", d.Attrs().Name, node, err)
				}
				p.links = append(p.links, l)
			}
		}
		return nil
	})
}

// read reads reports, as a collector does, until ctx is done.
func (p *peer) read(ctx context.Context) {
	if p.objects == nil {
		<-ctx.Done()
		return
	}
	reader, err := ringbuf.NewReader(p.objects.Reports)
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer: read reports:", err)
		<-ctx.Done()
		return
	}
	defer reader.Close()
	var record ringbuf.Record
	for ctx.Err() == nil {
		// Nobody is woken up for reports: looked for a hundred times a second.
		reader.SetDeadline(time.Now().Add(10 * time.Millisecond))
		for reader.ReadInto(&record) == nil {
			p.reports++
		}
	}
}

// summary prints what was counted.
func (p *peer) summary() error {
	if p.objects == nil {
		return nil
	}
	counted := map[string]uint64{"read": p.reports}
	for name, which := range map[string]inband.InbandInbandCounter{
		"measured":  inband.InbandInbandCounterINBAND_MEASURED,
		"reported":  inband.InbandInbandCounterINBAND_REPORTED,
		"ring_full": inband.InbandInbandCounterINBAND_RING_FULL,
		"refused":   inband.InbandInbandCounterINBAND_REFUSED,
	} {
		var perCPU []uint64
		if err := p.objects.Counters.Lookup(uint32(which), &perCPU); err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
		for _, n := range perCPU {
			counted[name] += n
		}
	}
	return json.NewEncoder(os.Stdout).Encode(counted)
}
