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

	"github.com/cilium/ebpf/link"
)

// neighbour is something that a whole network can have on it: radar, and what it is
// compared with. on puts it on and returns what takes it off.
type neighbour struct {
	name string
	on   func(context.Context, *network) (off func() error, err error)
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
		{"none", func(context.Context, *network) (func() error, error) { return func() error { return nil }, nil }},
		{"nop", func(_ context.Context, n *network) (func() error, error) { return nopEverywhere(n, nop) }},
	}
	for _, r := range builds {
		list = append(list, neighbour{r.name, func(ctx context.Context, n *network) (func() error, error) {
			return r.detach, r.attach(ctx, n, attachFlags...)
		}})
	}
	if path, err := exec.LookPath("tcpdump"); err == nil {
		list = append(list, neighbour{"tcpdump", func(ctx context.Context, n *network) (func() error, error) {
			return tcpdumpEverywhere(ctx, n, path)
		}})
	} else {
		notes = append(notes, "tcpdump is not installed: left out.")
	}
	return list, notes, nop.close, nil
}

// nopEverywhere attaches to both directions of every port, as radar does.
func nopEverywhere(n *network, nop *design) (func() error, error) {
	var links []link.Link
	off := func() error {
		var errs []error
		for _, l := range links {
			errs = append(errs, l.Close())
		}
		return errors.Join(errs...)
	}
	for _, p := range n.ports {
		err := n.in(p.node, func() error {
			for _, ingress := range []bool{true, false} {
				l, err := attachTCX(p.device, nop.progs[0][0], ingress)
				if err != nil {
					return err
				}
				links = append(links, l)
			}
			return nil
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("attach nop: %w", err), off())
		}
	}
	return off, nil
}

// tcpdumpEverywhere captures every packet of every node, and throws the captures away.
func tcpdumpEverywhere(ctx context.Context, n *network, path string) (func() error, error) {
	var running []*exec.Cmd
	off := func() error {
		var errs []error
		for _, cmd := range running {
			errs = append(errs, stop(cmd, syscall.SIGTERM))
		}
		return errors.Join(errs...)
	}
	for node := range n.nodes {
		cmd := exec.CommandContext(ctx, path, "-i", "any", "-n", "-w", "/dev/null")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stderr, err := cmd.StderrPipe()
		if err == nil {
			err = n.start(node, cmd)
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
