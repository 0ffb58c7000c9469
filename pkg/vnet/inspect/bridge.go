// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// STPState is what spanning tree lets a bridge port do.
type STPState uint8

// The states, as the kernel numbers them.
const (
	STPDisabled STPState = iota
	STPListening
	STPLearning
	STPForwarding
	STPBlocking
)

var stpNames = [...]string{"disabled", "listening", "learning", "forwarding", "blocking"}

// Blocks reports whether spanning tree keeps a port from forwarding. One that is disabled is down, or has no carrier: that is
// another cause.
func (s STPState) Blocks() bool { return s != STPForwarding && s != STPDisabled }

// String is the name of the state.
func (s STPState) String() string {
	if int(s) < len(stpNames) {
		return stpNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// BridgePort is a member of a bridge.
type BridgePort struct {
	Name     string
	Ifindex  int
	Master   int // the bridge's number
	Bridge   string
	MTU      int
	State    STPState
	Hairpin  bool // what came in by it may leave by it
	Isolated bool // it reaches no other port that is isolated
}

// Bridges are those of a node.
type Bridges struct {
	Ports []BridgePort
	// Snooping are the names of bridges that send to a group only where somebody has joined it.
	Snooping map[string]bool
}

// BridgesOf reads the node's bridges and their ports.
func BridgesOf(node topo.NodeSpec) (b Bridges, err error) {
	b.Snooping = make(map[string]bool)
	err = node.Do(func() error {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_BRIDGE))
		msgs, err := host.RetryDump(func() ([][]byte, error) { return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK) })
		if err != nil {
			return fmt.Errorf("node %s: list bridge ports: %w", node.Name, err)
		}
		for _, m := range msgs {
			if p, ok := bridgePortOf(m); ok {
				b.Ports = append(b.Ports, p)
			}
		}
		links := make(map[int]netlink.Link)
		for i := range b.Ports {
			p := &b.Ports[i]
			link := links[p.Master]
			if link == nil {
				if link, err = netlink.LinkByIndex(p.Master); err != nil {
					continue
				}
				links[p.Master] = link
			}
			p.Bridge = link.Attrs().Name
			if br, ok := link.(*netlink.Bridge); ok && br.MulticastSnooping != nil {
				b.Snooping[p.Bridge] = *br.MulticastSnooping
			}
		}
		return nil
	})
	return b, err
}

// Port is the member of that name; nil: there is none.
func (b *Bridges) Port(name string) *BridgePort {
	for i := range b.Ports {
		if b.Ports[i].Name == name {
			return &b.Ports[i]
		}
	}
	return nil
}

// bridgePortOf reads a message of the family of bridges.
func bridgePortOf(m []byte) (p BridgePort, ok bool) {
	if len(m) < unix.SizeofIfInfomsg {
		return p, false
	}
	p.Ifindex = int(int32(binary.NativeEndian.Uint32(m[4:])))
	for kind, value := range host.Attributes(m[unix.SizeofIfInfomsg:]) {
		switch {
		case kind == unix.IFLA_IFNAME:
			p.Name = unix.ByteSliceToString(value)
		case kind == unix.IFLA_MTU && len(value) == 4:
			p.MTU = int(binary.NativeEndian.Uint32(value))
		case kind == unix.IFLA_MASTER && len(value) == 4:
			p.Master = int(binary.NativeEndian.Uint32(value))
		case kind == unix.IFLA_PROTINFO:
			for kind, value := range host.Attributes(value) {
				if len(value) != 1 {
					continue
				}
				switch kind {
				case nl.IFLA_BRPORT_STATE:
					p.State, ok = STPState(value[0]), true
				case nl.IFLA_BRPORT_MODE:
					p.Hairpin = value[0] != 0
				case brportIsolated:
					p.Isolated = value[0] != 0
				}
			}
		}
	}
	return p, ok && p.Name != "" && p.Master > 0
}

// brportIsolated is IFLA_BRPORT_ISOLATED of linux/if_link.h.
const brportIsolated = 33
