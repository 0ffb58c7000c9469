// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"fmt"
	"strings"
)

// testcase is a setting of the switches, the frames that h1 sends, and what must become of them.
type testcase struct {
	name      string
	mode      string
	bitmap    uint16
	domain    uint16
	remaining int
	sample    int
	mark      mark
	tr10      bool // reports of version 1.0
	mtu       int  // of what leaves s1
	mtuNext   int  // of what leaves s2 and s3
	congested int  // packets in a queue that are reported
	suppress  bool // of a flow that does not change only one report is sent
	noDrops   bool // drops are not reported
	once      bool // one report of a flow's drops
	inside    bool // a node of the domain is behind s1's port 1, not the outside
	foreign   bool // INT from outside is dropped
	extra     map[int]string
	frames    []sent
}

// sent is a frame, and its fate. The zero fate: it gets INT, and reaches h2.
type sent struct {
	frame
	raw   []byte  // instead of the frame
	skip  int     // why s1 does not mark it
	all   bool    // and no other switch does, for the same reason
	next  int     // why s2 or s3 adds nothing to it
	lost  int     // the switch that drops it: 1, 2 for the middle, or 4
	why   int     // the reason
	born  *inband // INT that it has when h1 sends it
	quiet bool    // its drop is not reported, since one of its flow was
	gone  bool    // the sink discards it, since its INT says so (D)
}

func (s *sent) bytes() []byte {
	if s.raw != nil {
		return s.raw
	}
	return s.frame.bytes()
}

// reach is the number of switches that a frame passes or ends in.
func (s *sent) reach() int {
	return map[int]int{0: 3, 1: 1, 2: 2, 4: 3}[s.lost]
}

const (
	hwID     = 5
	session  = 500
	quoted   = 32 // bytes of payload in a report
	port     = 32766
	watchers = 10 // priority of the case's entry
)

func (c *testcase) setDefaults() {
	def := func(v *int, n int) {
		if *v == 0 {
			*v = n
		}
	}
	def(&c.mtu, 1500)
	def(&c.mtuNext, 1500)
	def(&c.sample, 1)
	if c.remaining == 0 {
		c.remaining = 8
	}
	if c.bitmap == 0 {
		c.bitmap = 0xfc00
	}
	if c.mark == (mark{}) {
		c.mark = mark{dscp: 0x17, mask: 0x3f}
	}
}

// entries are the settings of a switch, as simple_switch_CLI reads them. They come on top of the
// lab's own, whose entries of these tables have been removed.
func (c *testcase) entries(s int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	drops, interval := 1, 0
	if c.noDrops {
		drops = 0
	}
	if c.once {
		interval = 3600_000_000
	}
	line("table_set_default int.settings int.node %d %d %d %d %d %d %d %d %d",
		nodeID(s), hwID, c.mark.dscp, c.mark.mask, c.mark.port, port, session, drops, interval)
	if c.suppress {
		line("table_set_default int.reporting int.report_changes 4000000000 1000000 3600000000")
	} else {
		line("table_set_default int.reporting int.report_all")
	}
	collector := "collector_20"
	if c.tr10 {
		collector = "collector_10"
	}
	line("table_add int.collectors int.%s %d => %v %v 10.0.9.%d 10.0.9.9 %d %d %d",
		collector, reportPort(s), routerMAC(s, reportPort(s)), mac(hostMAC(9)), s, 4000+s, port, quoted)
	c.roles(s, line)
	if s == 1 || c.mode == xd {
		line("table_add int.watchlist int.ignore 0&&&0 0&&&0 0&&&0 0&&&0 0&&&0 %d&&&0xffff 0&&&0 => %d", unwatched, watchers-1)
		line("table_add int.watchlist int.watch_%s 0&&&0 0&&&0 0&&&0 0&&&0 0&&&0 0&&&0 0&&&0 => %s %d", c.mode, c.instructions(), watchers)
	}
	b.WriteString(c.extra[s])
	return b.String()
}

// unwatched is a port whose packets an entry of the watchlist leaves out.
const unwatched = 4444

func (c *testcase) roles(s int, line func(string, ...any)) {
	if isEdge(s) {
		role := fmt.Sprintf("int.source 1 => %d %d", b2i(c.foreign), l2Port(s, 1))
		if s == 1 && c.inside {
			role = fmt.Sprintf("int.transit_in 1 => %d", l2Port(s, 1))
		}
		line("table_add int.ingress_ports %s", role)
		line("table_add int.egress_ports int.sink 1 => %d %d", c.congested, l2Port(s, 1))
	}
	mtu := c.mtuNext
	if s == 1 {
		mtu = c.mtu
	}
	for _, p := range insidePorts(s) {
		line("table_add int.ingress_ports int.transit_in %d => %d", p, l2Port(s, p))
		line("table_add int.egress_ports int.transit_out %d => %d %d %d", p, mtu, c.congested, l2Port(s, p))
	}
}

func (c *testcase) instructions() string {
	switch c.mode {
	case md:
		return fmt.Sprintf("%#x %d %d %d", c.bitmap, c.domain, c.hops(), c.sample)
	case md10:
		return fmt.Sprintf("%#x %d %d", c.bitmap, c.hops(), c.sample)
	}
	return fmt.Sprintf("%#x %d %d", c.bitmap, c.domain, c.sample)
}

// none stands for a hop count of 0, since 0 is the default.
const none = -1

func (c *testcase) hops() int { return max(c.remaining, 0) }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
