// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/cmd/bench/inband"
	"github.com/vnetradar/radar/cmd/bench/network"
)

// neighbour is something that a whole network can have on it: radar, and what it is
// compared with. on puts it on and returns what takes it off; packets go from the first node to node last.
type neighbour struct {
	name    string
	on      func(ctx context.Context, n *network.Network, last int) (off func() error, err error)
	perPath bool // it measures packets to one node only
}

// newNeighbours are nothing, do-nothing programs on radar's hooks, radar with everything
// that is on by default, other builds of it, and tcpdump in each node. Notes say what is
// missing.
func newNeighbours(builds []namedRadar, attachFlags ...string) (list []neighbour, notes []string, close func(), err error) {
	nop, err := nopDesign(nil, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	list = []neighbour{
		{name: "none", on: func(context.Context, *network.Network, int) (func() error, error) {
			return func() error { return nil }, nil
		}},
		{name: "nop", on: func(_ context.Context, n *network.Network, _ int) (func() error, error) { return nopEverywhere(n, nop) }},
	}
	for _, r := range builds {
		list = append(list, neighbour{name: r.name, on: func(ctx context.Context, n *network.Network, _ int) (func() error, error) {
			return r.detach, r.attach(ctx, n, attachFlags...)
		}})
	}
	if path, err := exec.LookPath("tcpdump"); err == nil {
		list = append(list, neighbour{name: "tcpdump", on: func(ctx context.Context, n *network.Network, _ int) (func() error, error) {
			return tcpdumpEverywhere(ctx, n, path)
		}})
	} else {
		notes = append(notes, "tcpdump is not installed: left out.")
	}
	return list, notes, nop.close, nil
}

// nopEverywhere attaches to both directions of every port, as radar does.
func nopEverywhere(n *network.Network, nop *design) (func() error, error) {
	return everywhere(n, func(int) (ingress, egress *ebpf.Program) { return nop.progs[0][0], nop.progs[0][0] })
}

// everywhere attaches what of says to the ports of each node; nil is nothing.
func everywhere(n *network.Network, of func(node int) (ingress, egress *ebpf.Program)) (func() error, error) {
	var links []link.Link
	off := func() error {
		var errs []error
		for _, l := range links {
			errs = append(errs, l.Close())
		}
		return errors.Join(errs...)
	}
	for _, p := range n.Ports {
		err := n.In(p.Node, func() error {
			ingress, egress := of(p.Node)
			for i, prog := range []*ebpf.Program{ingress, egress} {
				if prog == nil {
					continue
				}
				l, err := attachTCX(p.Device, prog, i == 0)
				if err != nil {
					return err
				}
				links = append(links, l)
			}
			return nil
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("attach programs: %w", err), off())
		}
	}
	return off, nil
}

// inBand is in-band telemetry as PPTMon's: each router puts words into packets to a node, which takes them out. Packets
// become longer, so all links but the first take longer ones.
func inBand() neighbour {
	return neighbour{name: "in-band", perPath: true, on: func(_ context.Context, n *network.Network, last int) (func() error, error) {
		t, err := inband.Open(network.Addr4(0, last-1, 2))
		if err != nil {
			return nil, err
		}
		detach, err := everywhere(n, func(node int) (ingress, egress *ebpf.Program) {
			switch {
			case node == last:
				return t.InbandSink, nil
			case node > 0 && node < last:
				return t.InbandIngress, t.InbandEgress
			}
			return nil, nil
		})
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		off := func() error {
			measured, reported, err := t.Counted()
			if err == nil && (measured == 0 || reported == 0) {
				err = fmt.Errorf("words were put into %d packets and reported of %d: a figure says nothing of what does nothing", measured, reported)
			}
			return errors.Join(err, detach(), t.Close(), n.SetMTU(usualMTU))
		}
		if err := n.SetMTU(inBandMTU); err != nil {
			return nil, errors.Join(err, detach(), t.Close())
		}
		return off, nil
	}}
}

const usualMTU, inBandMTU = 1500, 1600

// tcpdumpEverywhere captures every packet of every node, and throws the captures away.
func tcpdumpEverywhere(ctx context.Context, n *network.Network, path string) (func() error, error) {
	var running []*exec.Cmd
	off := func() error {
		var errs []error
		for _, cmd := range running {
			errs = append(errs, stop(cmd, syscall.SIGTERM))
		}
		return errors.Join(errs...)
	}
	for node := range n.Nodes {
		cmd := exec.CommandContext(ctx, path, "-i", "any", "-n", "-w", "/dev/null")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stderr, err := cmd.StderrPipe()
		if err == nil {
			err = n.Start(node, cmd)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start tcpdump: %w", err), off())
		}
		running = append(running, cmd)
		if err := listening(stderr); err != nil {
			return nil, errors.Join(err, off())
		}
	}
	return off, nil
}

// listening waits until tcpdump says that it captures, and then reads what else it says.
func listening(stderr io.Reader) error {
	said := bufio.NewScanner(stderr)
	var before []string
	for said.Scan() {
		if strings.Contains(said.Text(), "listening on") {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return nil
		}
		before = append(before, said.Text())
	}
	return fmt.Errorf("tcpdump has ended: %s", strings.Join(before, "; "))
}
