// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/dut"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/selector"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// wishFlags are flags about addresses.
type wishFlags struct {
	dut.Wish
	from, to, toMAC string
}

func (w *wishFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&w.from, "from", "", "source address of test packets (default: --in's)")
	flags.StringVar(&w.to, "to", "", "destination address (default: --out's)")
	flags.StringVar(&w.toMAC, "to-mac", "", "destination MAC address (default: as --in's routes and neighbours say)")
	flags.Uint16Var(&w.FromPort, "from-port", dut.DefaultFromPort, "UDP source port")
	flags.Uint16Var(&w.ToPort, "to-port", dut.DefaultToPort, "UDP destination port")
	flags.BoolVarP(&w.IPv6, "ipv6", "6", false, "send IPv6 (default: IPv4, unless the ports or addresses have IPv6 only)")
}

// read parses addresses.
func (w *wishFlags) read() (err error) {
	for _, a := range []struct {
		flag, text string
		addr       *netip.Addr
	}{{"from", w.from, &w.From}, {"to", w.to, &w.To}} {
		if a.text == "" {
			continue
		}
		if *a.addr, err = netip.ParseAddr(a.text); err != nil || a.addr.Zone() != "" {
			return fault.Usage.Errorf("--%s %q: use an IP address", a.flag, a.text)
		}
		*a.addr = a.addr.Unmap()
	}
	if w.toMAC != "" {
		if w.ToMAC, err = net.ParseMAC(w.toMAC); err != nil || len(w.ToMAC) != 6 {
			return fault.Usage.Errorf("--to-mac %q: use a MAC address such as 02:00:00:00:00:01", w.toMAC)
		}
	}
	return nil
}

// device opens both ports; nil if there are none.
func (f *options) device(ctx context.Context, k *kit.Kit) (d *dut.Device, closePorts func(), err error) {
	f.sweep.IPv6 = f.wish.IPv6
	if f.sweep.Loopback == dut.LoopbackOnly {
		return nil, func() {}, nil
	}
	in, err := openPort(ctx, k, "in", f.in)
	if err != nil {
		return nil, nil, err
	}
	out, err := openPort(ctx, k, "out", f.out)
	if err != nil {
		in.Close()
		return nil, nil, err
	}
	return &dut.Device{In: in, Out: out, Wish: f.wish.Wish}, func() { in.Close(); out.Close() }, nil
}

// openPort opens NODE/PORT. The name of an interface has no '/', NODE may have some.
func openPort(ctx context.Context, k *kit.Kit, flag, text string) (*dut.Port, error) {
	cut := strings.LastIndexByte(text, '/')
	if cut <= 0 || cut == len(text)-1 {
		return nil, fault.Usage.Errorf("--%s %q: use NODE/PORT, such as netns:blue/eth0", flag, text)
	}
	node, err := findNode(ctx, k, text[:cut])
	if err != nil {
		return nil, fault.Usage.Errorf("--%s %s: %w", flag, text, err)
	}
	ns, err := node.Open()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	return dut.OpenPort(node.Name+text[cut:], ns, text[cut+1:])
}

// findNode is the namespace that a user names: a node of the domain, or a selector of one.
func findNode(ctx context.Context, k *kit.Kit, name string) (topo.NodeSpec, error) {
	if d, err := answer.Network(k.Domain); err == nil && !strings.Contains(name, ":") {
		for _, n := range d.Nodes {
			if n.Name == name && !n.Removed && !n.Machine {
				return topo.NodeSpec{Place: n.Place}, nil
			}
		}
	}
	result, err := selector.Resolve(ctx, selector.Request{Selectors: []string{name}})
	if err != nil {
		return topo.NodeSpec{}, err
	}
	if n := len(result.Nodes); n != 1 {
		return topo.NodeSpec{}, fault.Usage.Errorf("%s stands for %d nodes: name one", name, n)
	}
	return result.Nodes[0], nil
}

// completePort completes nodes, and then their interfaces.
func completePort(k *kit.Kit) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), kit.CompletionTime)
		defer cancel()
		directive := cobra.ShellCompDirectiveNoFileComp
		if cut := strings.LastIndexByte(word, '/'); cut > 0 {
			node, err := findNode(ctx, k, word[:cut])
			if err != nil {
				return nil, directive
			}
			var ports []cobra.Completion
			for _, name := range kit.LinkNames(node) {
				ports = append(ports, word[:cut+1]+name)
			}
			return ports, directive
		}
		var nodes []cobra.Completion
		for _, name := range append(k.NodesExcept(nil, false), selector.Choices(ctx, word)...) {
			if !strings.HasSuffix(name, ":") {
				name += "/"
			}
			nodes = append(nodes, name)
		}
		return nodes, directive | cobra.ShellCompDirectiveNoSpace
	}
}
