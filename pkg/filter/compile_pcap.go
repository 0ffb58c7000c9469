// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nopcap

package filter

import (
	"fmt"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcap"
	"golang.org/x/net/bpf"
)

// Available reports whether expressions are built in.
const Available = true

// Data link types of libpcap (DLT_*), which are not those of files.
const (
	dltEthernet = 1
	dltRaw      = 12 // begins with the IP header
)

// snapLen is what the program returns for a match: any number but 0.
const snapLen = 65535

// Library names the library that compiles expressions.
func Library() string { return pcap.Version() }

func compile(text string) ([]bpf.RawInstruction, error) {
	insns, err := pcap.CompileBPFFilter(dltRaw, snapLen, text)
	if err != nil {
		// What Ethernet would take asks for a link layer.
		if _, other := pcap.CompileBPFFilter(layers.LinkType(dltEthernet), snapLen, text); other == nil {
			return nil, fmt.Errorf("%w (packets begin at the IP header here: ask for addresses, protocols and ports instead of the link layer)", err)
		}
		return nil, err
	}
	raw := make([]bpf.RawInstruction, len(insns))
	for i, in := range insns {
		raw[i] = bpf.RawInstruction{Op: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return raw, nil
}
