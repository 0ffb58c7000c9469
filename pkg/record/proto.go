// SPDX-License-Identifier: Apache-2.0

package record

import "strconv"

// IP protocols (IANA) that radar reads, and IPv6's fragment header.
const (
	ProtoICMP     = 1
	ProtoTCP      = 6
	ProtoUDP      = 17
	ProtoFragment = 44
	ProtoICMPv6   = 58
	ProtoSCTP     = 132
)

// protoNames are the IP protocols (IANA) that records call by name.
var protoNames = map[uint8]string{
	ProtoICMP: "icmp", 2: "igmp", 4: "ipip", ProtoTCP: "tcp", ProtoUDP: "udp", 33: "dccp", 41: "ipv6",
	46: "rsvp", 47: "gre", 50: "esp", 51: "ah", ProtoICMPv6: "icmpv6", 88: "eigrp", 89: "ospf", 103: "pim",
	112: "vrrp", ProtoSCTP: "sctp", 136: "udplite",
}

// protoStrings has the text for each number, so that a record costs no allocation.
var protoStrings = func() (s [256]string) {
	for i := range s {
		s[i] = strconv.Itoa(i)
		if name, ok := protoNames[uint8(i)]; ok {
			s[i] = name
		}
	}
	return s
}()

// ProtoName returns what Record.Proto says for an IP protocol: its name, or the
// number where it has none here.
func ProtoName(proto uint8) string { return protoStrings[proto] }

// ParseProto is the reverse of ProtoName; it takes the number of a named protocol
// too. ok is false if s is neither.
func ParseProto(s string) (proto uint8, ok bool) {
	for i, name := range protoStrings {
		if name == s {
			return uint8(i), true
		}
	}
	n, err := strconv.ParseUint(s, 10, 8)
	return uint8(n), err == nil
}
