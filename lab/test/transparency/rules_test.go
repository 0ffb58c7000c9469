// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Rule makes bytes equal that kernels draw by chance, or leaves out frames that are no
// traffic of the case. Nothing else is ignored.
type Rule struct {
	Name  string
	Why   string
	Skip  func(s *sighting) bool         // leave the frame out
	Apply func(frame []byte, d *decoded) // d is nil for what is no IP packet
	// Whole makes the frames of one flow at one port comparable together.
	Whole func(frames [][]byte) [][]byte
}

// defaultRules are applied to every case.
var defaultRules = []Rule{
	{
		Name: "not-ip", Why: "ARP, and frames of bridges' own protocols, follow timers",
		Skip: func(s *sighting) bool {
			if s.l3 {
				return false
			}
			kind, _ := etherTypeOf(s.frame)
			return kind != unix.ETH_P_IP && kind != unix.ETH_P_IPV6
		},
	},
	{
		Name: "discovery", Why: "neighbour and listener discovery of IPv6 follows timers",
		Skip: func(s *sighting) bool {
			d := s.decoded
			if d == nil || d.version != 6 || !d.isICMP() {
				return false
			}
			return d.icmpType >= 130 && d.icmpType <= 137 || d.icmpType == 143
		},
	},
	{
		Name: "icmp-id", Why: "the kernel draws the IP ID of its ICMP errors and echo replies",
		Apply: func(frame []byte, d *decoded) {
			if d != nil && d.version == 4 && (d.isError() || d.isEcho() && d.icmpType == 0) && !d.df {
				setID(frame[d.l3:], 0)
			}
		},
	},
}

// rules of a case.
func (c *Case) rules() []Rule { return append(append([]Rule(nil), defaultRules...), c.Rules...) }

// setID puts an ID into an IPv4 header and corrects its checksum, if that was right.
func setID(ip []byte, id uint16) {
	right := checksum(ip[:int(ip[0]&15)*4]) == 0
	binary.BigEndian.PutUint16(ip[4:], id)
	if right {
		sumIPv4(ip)
	}
}

// normalizeIP applies the default rules to a packet that begins with its IP header.
func normalizeIP(b []byte) {
	d := decode(b, true, 0)
	for _, r := range defaultRules {
		if r.Apply != nil {
			r.Apply(b, d)
		}
	}
}

// pingTime makes echoes of ping equal: they begin with the time, and the identifier is
// ping's process.
var pingTime = Rule{
	Name: "ping-time", Why: "ping writes the time into its payload, and draws its identifier and IP ID",
	Apply: func(frame []byte, d *decoded) {
		if d == nil || d.version != 4 || d.proto != unix.IPPROTO_ICMP {
			return
		}
		if !d.df {
			setID(frame[d.l3:], 0)
		}
		if d.fragOff == 0 && d.isEcho() && d.l4+24 <= len(frame) {
			clear(frame[d.l4+2 : d.l4+6])
			clear(frame[d.l4+8 : d.l4+24])
		}
	},
}
