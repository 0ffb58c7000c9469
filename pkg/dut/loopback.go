// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system"
)

// pair is two ports that are the ends of one link, in namespaces of their own. They are gone when
// it is closed, or the process ends.
type pair struct {
	ns    [2]netns.NsHandle
	ports [2]*Port
}

// Loop-back ports have the addresses that ports without any have.
const loopDevice = "loop"

func newPair(mtu int) (*pair, error) {
	p := &pair{ns: [2]netns.NsHandle{netns.None(), netns.None()}}
	for i := range p.ns {
		err := host.InNewNetns(func() (err error) {
			quiet()
			p.ns[i], err = netns.Get()
			return err
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("loop-back: %w", err), p.close())
		}
	}
	if err := p.link(mtu); err != nil {
		return nil, errors.Join(fmt.Errorf("loop-back: %w", err), p.close())
	}
	for i, name := range []string{"loop-back, first end", "loop-back, second end"} {
		var err error
		if p.ports[i], err = OpenPort(name, p.ns[i], loopDevice); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

// quiet lets the namespace send nothing by itself.
func quiet() {
	// A kernel without IPv6 sends nothing of it.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
}

// link makes the veths.
func (p *pair) link(mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = loopDevice, mtu
	err := host.InNetns(p.ns[0], func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: loopDevice, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(p.ns[1])})
	})
	if err != nil {
		return fmt.Errorf("make a pair of veths: %w", err)
	}
	for _, ns := range p.ns {
		err := host.InNetns(ns, func() error {
			l, err := netlink.LinkByName(loopDevice)
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(l)
		})
		if err != nil {
			return fmt.Errorf("set a veth up: %w", err)
		}
	}
	return nil
}

func (p *pair) close() error {
	var errs []error
	for i := range p.ns {
		if p.ports[i] != nil {
			p.ports[i].Close()
		}
		if p.ns[i].IsOpen() {
			errs = append(errs, p.ns[i].Close())
		}
	}
	return errors.Join(errs...)
}

// Loopback is a rig without a device.
type Loopback struct {
	*Rig
	pair *pair
}

// OpenLoopback makes one whose packets are like those of a, and go where nothing else is. Its
// frames have up to most bytes.
func OpenLoopback(a Addresses, cfg Config, most int) (*Loopback, error) {
	if err := system.CheckKernel(); err != nil {
		return nil, err
	}
	p, err := newPair(max(most-overMTU, leastMTU))
	if err != nil {
		return nil, err
	}
	a.FromMAC, a.ToMAC = p.ports[0].MAC, p.ports[1].MAC
	cfg.In, cfg.Out, cfg.Addresses = p.ports[0], p.ports[1], a
	r, err := Open(cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("loop-back: %w", err), p.close())
	}
	return &Loopback{r, p}, nil
}

// leastMTU is that of IPv6 (RFC 8200).
const leastMTU = 1280

// Close removes the loop-back.
func (l *Loopback) Close() error { return errors.Join(l.Rig.Close(), l.pair.close()) }

// BenchmarkAddresses are those of packets that no port has chosen.
func BenchmarkAddresses(ipv6 bool) Addresses {
	from, to := benchmarkFrom4, benchmarkTo4
	if ipv6 {
		from, to = benchmarkFrom6, benchmarkTo6
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 0}
	return Addresses{FromMAC: mac, ToMAC: mac, From: netip.AddrPortFrom(from, DefaultFromPort), To: netip.AddrPortFrom(to, DefaultToPort)}
}
