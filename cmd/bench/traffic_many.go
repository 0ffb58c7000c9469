// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/cmd/bench/network"
)

// manyFlows are datagrams of which each is of another flow than the one before: headers
// made by hand, with addresses and ports of senders that do not exist.
type manyFlows struct {
	*datagrams
	flows  int
	packet []byte
}

const (
	ipHeader     = 20
	udpHeader    = 8
	portsPerHost = 50_000
	firstPort    = 10_000
)

func newManyFlows(c *chain, flows int) (_ *manyFlows, err error) {
	d, err := newDatagrams(c, sink(0), nil)
	if err != nil {
		return nil, err
	}
	unix.Close(d.send)
	d.send = -1
	err = c.In(h1, func() (err error) {
		// IPPROTO_RAW: headers are ours.
		d.send, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	if err != nil {
		d.close()
		return nil, fmt.Errorf("open a raw socket in h1: %w", err)
	}
	m := &manyFlows{datagrams: d, flows: flows, packet: make([]byte, ipHeader+udpHeader+payloadSize)}
	ip, udp := m.packet, m.packet[ipHeader:]
	ip[0] = 0x45
	ip[6] = 0x40 // DF
	ip[8] = 64
	ip[9] = unix.IPPROTO_UDP
	to := sink(0).As4()
	copy(ip[16:], to[:])
	binary.BigEndian.PutUint16(udp[2:], udpPort)
	binary.BigEndian.PutUint16(udp[4:], udpHeader+payloadSize)
	return m, nil
}

// flowOf is where the packets of a flow say that they come from.
func flowOf(flow int) (host uint16, port uint16) {
	return uint16(flow / portsPerHost), uint16(firstPort + flow%portsPerHost)
}

func (m *manyFlows) flood(n int) (packets, skbs uint64, err error) {
	for range n {
		m.seq++
		host, port := flowOf(int(m.seq % uint64(m.flows)))
		// The kernel fills in ID, total length and checksum of the IP header.
		m.packet[12], m.packet[13] = 10, 253
		binary.BigEndian.PutUint16(m.packet[14:], 1+host)
		binary.BigEndian.PutUint16(m.packet[ipHeader:], port)
		binary.NativeEndian.PutUint64(m.packet[ipHeader+udpHeader:], m.seq)
		if err := again(func() error { return unix.Sendto(m.send, m.packet, 0, m.to) }); err != nil {
			return 0, 0, fmt.Errorf("send: %w", err)
		}
	}
	return uint64(n), uint64(n), nil
}

// overLanes are datagrams through the lanes of a chain in turn. The groups of nodes have
// a sender each.
type overLanes struct {
	flows []*datagrams
	next  int
}

func newLanes(c *chain, lanes int) (_ *overLanes, err error) {
	o := &overLanes{}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	for l := range lanes {
		first := c.lanes[l].first
		group := &chain{Network: &network.Network{Nodes: c.Nodes[first : first+nNodes]}}
		d, err := newDatagrams(group, sink(l), nil)
		if err != nil {
			return nil, err
		}
		o.flows = append(o.flows, d)
	}
	return o, nil
}

func (o *overLanes) close() {
	for _, f := range o.flows {
		f.close()
	}
}

func (o *overLanes) flood(n int) (packets, skbs uint64, err error) {
	for range n {
		o.next = (o.next + 1) % len(o.flows)
		if _, _, err := o.flows[o.next].flood(1); err != nil {
			return 0, 0, err
		}
	}
	return uint64(n), uint64(n), nil
}
