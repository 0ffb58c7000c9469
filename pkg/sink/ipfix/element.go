// SPDX-License-Identifier: Apache-2.0

package ipfix

import "encoding/binary"

// Information elements (IANA, "IPFIX Information Elements").
const (
	octetDeltaCount               = 1
	packetDeltaCount              = 2
	protocolIdentifier            = 4
	ipClassOfService              = 5
	tcpControlBits                = 6
	sourceTransportPort           = 7
	sourceIPv4Address             = 8
	ingressInterface              = 10
	destinationTransportPort      = 11
	destinationIPv4Address        = 12
	egressInterface               = 14
	sourceIPv6Address             = 27
	destinationIPv6Address        = 28
	flowLabelIPv6                 = 31
	icmpTypeCodeIPv4              = 32
	flowActiveTimeout             = 36
	flowIdleTimeout               = 37
	interfaceName                 = 82
	interfaceDescription          = 83
	droppedPacketDeltaCount       = 133
	flowEndReason                 = 136
	observationPointID            = 138
	icmpTypeCodeIPv6              = 139
	flowID                        = 148
	observationDomainID           = 149
	flowStartMilliseconds         = 152
	flowEndMilliseconds           = 153
	flowStartNanoseconds          = 156
	flowEndNanoseconds            = 157
	postNATSourceIPv4Address      = 225
	postNATDestinationIPv4Address = 226
	postNAPTSourcePort            = 227
	postNAPTDestinationPort       = 228
	postNATSourceIPv6Address      = 281
	postNATDestinationIPv6Address = 282
	basicList                     = 291
	observationDomainName         = 300
	// RFC 9951, 6.2.1 to 6.2.4: microseconds, the first three of 32 bits, the sum of 64.
	pathDelayMeanDelta = 530
	pathDelayMinDelta  = 531
	pathDelayMaxDelta  = 532
	pathDelaySumDelta  = 533
)

// varLength is the length of a field in a template whose records say how long it is (RFC 7011, 7).
const varLength = 0xffff

// field is one of a template: what it is, how long, and how a flow's value is written.
type field struct {
	id, size uint16
	put      func(b []byte, f *flow) []byte
}

// Numbers of template records (RFC 7011, 3.4.1: from 256 on). Those of flows are flowTemplates and a shape.
const (
	flowTemplates      = 256
	domainTemplate     = 512
	interfaceTemplate  = 513
	setTemplate        = 2
	setOptionsTemplate = 3
)

// shape says which fields a flow has: what is not known is in no record.
type shape uint8

const (
	shapeIPv6 shape = 1 << iota
	shapeDelay
	shapeNAT
	shapePorts
	shapeICMP
	shapeTCP
	shapes
)

var be = binary.BigEndian

// fields are those of a shape; postcards have no list of interfaces.
func fields(s shape, postcards bool) []field {
	list := addressFields(s)
	list = append(list,
		field{protocolIdentifier, 1, func(b []byte, f *flow) []byte { return append(b, f.key.proto) }},
		field{ipClassOfService, 1, func(b []byte, f *flow) []byte { return append(b, f.tos) }},
		field{octetDeltaCount, 8, func(b []byte, f *flow) []byte { return be.AppendUint64(b, f.octets) }},
		field{packetDeltaCount, 8, func(b []byte, f *flow) []byte { return be.AppendUint64(b, f.packets) }},
		field{droppedPacketDeltaCount, 8, func(b []byte, f *flow) []byte { return be.AppendUint64(b, f.dropped) }},
		// nfdump and others read milliseconds alone.
		field{flowStartMilliseconds, 8, func(b []byte, f *flow) []byte { return be.AppendUint64(b, millis(f.first)) }},
		field{flowEndMilliseconds, 8, func(b []byte, f *flow) []byte { return be.AppendUint64(b, millis(f.last)) }},
		field{flowStartNanoseconds, 8, func(b []byte, f *flow) []byte { return be.AppendUint64(b, ntp(f.first)) }},
		field{flowEndNanoseconds, 8, func(b []byte, f *flow) []byte { return be.AppendUint64(b, ntp(f.last)) }},
		field{ingressInterface, 4, func(b []byte, f *flow) []byte { return be.AppendUint32(b, f.key.in) }},
		field{egressInterface, 4, func(b []byte, f *flow) []byte { return be.AppendUint32(b, f.key.out) }},
		field{observationPointID, 4, func(b []byte, f *flow) []byte { return be.AppendUint32(b, f.key.node) }},
		field{flowID, 8, func(b []byte, f *flow) []byte { return be.AppendUint64(b, f.id) }},
		field{flowEndReason, 1, func(b []byte, f *flow) []byte { return append(b, byte(f.reason)) }},
	)
	if s&shapeDelay != 0 {
		list = append(list, delayFields...)
	}
	if !postcards {
		list = append(list, field{basicList, varLength, putPath})
	}
	return list
}

// addressFields are what tells a flow from others.
func addressFields(s shape) (list []field) {
	src, dst, size := uint16(sourceIPv4Address), uint16(destinationIPv4Address), uint16(4)
	postSrc, postDst, icmp := uint16(postNATSourceIPv4Address), uint16(postNATDestinationIPv4Address), uint16(icmpTypeCodeIPv4)
	if s&shapeIPv6 != 0 {
		src, dst, size = sourceIPv6Address, destinationIPv6Address, 16
		postSrc, postDst, icmp = postNATSourceIPv6Address, postNATDestinationIPv6Address, icmpTypeCodeIPv6
	}
	list = append(list,
		field{src, size, func(b []byte, f *flow) []byte { return append(b, f.key.src.AsSlice()...) }},
		field{dst, size, func(b []byte, f *flow) []byte { return append(b, f.key.dst.AsSlice()...) }})
	if s&shapeIPv6 != 0 {
		list = append(list, field{flowLabelIPv6, 4, func(b []byte, f *flow) []byte { return be.AppendUint32(b, f.label) }})
	}
	if s&shapePorts != 0 {
		list = append(list,
			field{sourceTransportPort, 2, func(b []byte, f *flow) []byte { return be.AppendUint16(b, f.key.sport) }},
			field{destinationTransportPort, 2, func(b []byte, f *flow) []byte { return be.AppendUint16(b, f.key.dport) }})
	}
	if s&shapeICMP != 0 {
		list = append(list, field{icmp, 2, func(b []byte, f *flow) []byte { return be.AppendUint16(b, f.key.icmp) }})
	}
	if s&shapeTCP != 0 {
		list = append(list, field{tcpControlBits, 2, func(b []byte, f *flow) []byte { return be.AppendUint16(b, f.flags) }})
	}
	if s&shapeNAT == 0 {
		return list
	}
	list = append(list,
		field{postSrc, size, func(b []byte, f *flow) []byte { return append(b, f.key.postSrc.AsSlice()...) }},
		field{postDst, size, func(b []byte, f *flow) []byte { return append(b, f.key.postDst.AsSlice()...) }})
	if s&shapePorts != 0 {
		list = append(list,
			field{postNAPTSourcePort, 2, func(b []byte, f *flow) []byte { return be.AppendUint16(b, f.key.postSport) }},
			field{postNAPTDestinationPort, 2, func(b []byte, f *flow) []byte { return be.AppendUint16(b, f.key.postDport) }})
	}
	return list
}

var delayFields = []field{
	{pathDelayMeanDelta, 4, func(b []byte, f *flow) []byte { return be.AppendUint32(b, micros32(f.delay.sum/f.delay.n)) }},
	{pathDelayMinDelta, 4, func(b []byte, f *flow) []byte { return be.AppendUint32(b, micros32(f.delay.least)) }},
	{pathDelayMaxDelta, 4, func(b []byte, f *flow) []byte { return be.AppendUint32(b, micros32(f.delay.most)) }},
	{pathDelaySumDelta, 8, func(b []byte, f *flow) []byte { return be.AppendUint64(b, micros(f.delay.sum)) }},
}

// Of a list of interfaces (RFC 6313, 4.5.1): its members are in the order of the way. mostPath keeps the length of the
// list in one byte.
const (
	listOrdered = 4
	listHead    = 5
	mostPath    = 60
)

// putPath writes the interfaces by which the packets went out.
func putPath(b []byte, f *flow) []byte {
	b = append(b, byte(listHead+4*len(f.path)), listOrdered)
	b = be.AppendUint16(b, egressInterface)
	b = be.AppendUint16(b, 4)
	for _, n := range f.path {
		b = be.AppendUint32(b, n)
	}
	return b
}

// micros rounds nanoseconds.
func micros(ns uint64) uint64 { return ns/1000 + (ns%1000+500)/1000 }

// micros32 is micros in what an element of 32 bits holds.
func micros32(ns uint64) uint32 { return uint32(min(micros(ns), 1<<32-1)) }

func millis(unixNs int64) uint64 { return uint64(max(unixNs, 0)) / 1e6 }

// ntp is a time as NTP writes it (RFC 7011, 6.1.10): rounded up, so that whoever cuts it off has the nanosecond.
func ntp(unixNs int64) uint64 {
	const since1900 = 2208988800
	ns := uint64(max(unixNs, 0))
	return (ns/1e9+since1900)<<32 | (ns%1e9<<32+1e9-1)/1e9
}
