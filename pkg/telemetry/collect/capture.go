// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/telemetry/quote"
)

// Capture reads a capture file: pcap (pcap-savefile(5)) or pcapng.
type Capture struct {
	next func() ([]byte, gopacket.CaptureInfo, error)
	link func(gopacket.CaptureInfo) layers.LinkType
	n    int
}

// OpenCapture reads the file's header; the first bytes tell the formats apart.
func OpenCapture(in io.Reader) (*Capture, error) {
	r := bufio.NewReaderSize(in, 1<<16)
	magic, err := r.Peek(4)
	if err != nil {
		return nil, errors.New("too short for a capture")
	}
	if string(magic) == "\x0a\x0d\x0d\x0a" {
		ng, err := pcapgo.NewNgReader(r, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
		if err != nil {
			return nil, fmt.Errorf("pcapng: %w", err)
		}
		return &Capture{next: ng.ZeroCopyReadPacketData, link: func(info gopacket.CaptureInfo) layers.LinkType {
			for _, v := range info.AncillaryData {
				if t, ok := v.(layers.LinkType); ok {
					return t
				}
			}
			return ng.LinkType()
		}}, nil
	}
	p, err := pcapgo.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("neither pcap nor pcapng: %w", err)
	}
	return &Capture{next: p.ZeroCopyReadPacketData, link: func(gopacket.CaptureInfo) layers.LinkType { return p.LinkType() }}, nil
}

// Next returns the next packet, which is valid until the next call, and what it begins with. The error
// is io.EOF, as it is, at the end of the file, and else names the packet.
func (c *Capture) Next() (data []byte, start intwire.Start, info gopacket.CaptureInfo, err error) {
	data, info, err = c.next()
	if errors.Is(err, io.EOF) {
		return nil, 0, info, io.EOF
	}
	c.n++
	if err != nil {
		return nil, 0, info, fmt.Errorf("packet %d: %w", c.n, err)
	}
	start, ok := startOf(c.link(info))
	if !ok {
		return nil, 0, info, fmt.Errorf("packet %d: link type %v is none that is read (Ethernet, raw IP, Linux cooked)", c.n, c.link(info))
	}
	return data, start, info, nil
}

// NextPacket is Next for packets of IP. One of something else has no bytes.
func (c *Capture) NextPacket() (Packet, error) {
	data, start, info, err := c.Next()
	if err != nil {
		return Packet{}, err
	}
	switch start {
	case intwire.StartEthernet:
		data = quote.BehindLink(data, 12)
	case intwire.StartCooked:
		data = quote.BehindLink(data, 14)
	case intwire.StartCooked2:
		if len(data) < 20 {
			data = nil
			break
		}
		// Its EtherType is at the front: put where the others have it.
		copy(data[18:20], data[:2])
		data = quote.BehindLink(data, 18)
	}
	return Packet{info.Timestamp, data}, nil
}

// startOf is what packets of a link type begin with.
func startOf(t layers.LinkType) (intwire.Start, bool) {
	switch t {
	case layers.LinkTypeEthernet:
		return intwire.StartEthernet, true
	case layers.LinkTypeRaw, layers.LinkTypeIPv4, layers.LinkTypeIPv6, 12, 14: // the numbers of older systems
		return intwire.StartIP, true
	case layers.LinkTypeLinuxSLL:
		return intwire.StartCooked, true
	case 276: // SLL2
		return intwire.StartCooked2, true
	}
	return 0, false
}
