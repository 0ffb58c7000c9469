// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/intwire"
)

// Options hold for all nodes of a domain.
type Options struct {
	Mark      Mark           `json:"mark"`
	Entries   []Entry        `json:"watchlist"` // the first that matches a packet counts
	Collector string         `json:"collector"` // as the user wrote it
	Address   netip.AddrPort `json:"address"`   // of the collector
	Report    string         `json:"report"`    // Report20 or Report10
	Quote     int            `json:"quote"`     // bytes of a packet behind its headers
	Lease     time.Duration  `json:"lease"`     // 0: it never ends
	// SinkElsewhere: nodes that are not of this domain take INT from packets.
	SinkElsewhere bool `json:"sink_elsewhere,omitempty"`
}

// Versions of telemetry reports.
const (
	Report20 = "2.0"
	Report10 = "1.0"
)

// Mark is how packets that bear INT are known.
type Mark struct {
	DSCP uint8  `json:"dscp,omitempty"`
	Mask uint8  `json:"mask,omitempty"` // of the DSCP; 0: the port marks
	Port uint16 `json:"port,omitempty"` // of UDP
}

// String is the mark as ParseMark reads it.
func (m Mark) String() string {
	if m.Mask == 0 {
		return fmt.Sprintf("port=%d", m.Port)
	}
	return fmt.Sprintf("dscp=0x%02x/0x%02x", m.DSCP, m.Mask)
}

// ParseMark reads dscp=VALUE, dscp=VALUE/MASK or port=N.
func ParseMark(text string) (Mark, error) {
	kind, value, _ := strings.Cut(text, "=")
	switch kind {
	case "port":
		port, err := strconv.ParseUint(value, 0, 16)
		if err != nil || port == 0 {
			return Mark{}, fault.Usage.Errorf("‹mark› %q: use port=1 to port=65535", text)
		}
		return Mark{Port: uint16(port)}, nil
	case "dscp":
		number, of, given := strings.Cut(value, "/")
		if !given {
			of = "0x3f"
		}
		dscp, err := strconv.ParseUint(number, 0, 8)
		mask, maskErr := strconv.ParseUint(of, 0, 8)
		if err != nil || maskErr != nil || mask == 0 || mask > 0x3f || dscp > 0x3f {
			return Mark{}, fault.Usage.Errorf("‹mark› %q: use dscp=VALUE/MASK, both of six bits, such as dscp=0x17/0x3f", text)
		}
		if dscp&mask == 0 || dscp&^mask != 0 {
			return Mark{}, fault.Usage.Errorf("‹mark› %q: the value has bits of the mask, at least one of them and no others", text)
		}
		return Mark{DSCP: uint8(dscp), Mask: uint8(mask)}, nil
	}
	return Mark{}, fault.Usage.Errorf("‹mark› %q: use dscp=VALUE/MASK or port=N", text)
}

// Entry is one of the watchlist.
type Entry struct {
	Expr         string               `json:"expr,omitempty"` // in tcpdump's language; "": all TCP and UDP
	Program      []bpf.RawInstruction `json:"program,omitempty"`
	Mode         Mode                 `json:"mode"`
	Instructions uint16               `json:"instructions"`
	Domain       uint16               `json:"domain_id"`
	Hops         uint8                `json:"hops"`   // nodes that may add, the source among them
	Sample       uint32               `json:"sample"` // one packet in so many
}

// Mode is how nodes tell what they know of packets: bpfobj.IntMode.
type Mode uint8

// The modes.
const (
	None = Mode(bpfobj.INT_MODE_NONE)
	MD   = Mode(bpfobj.INT_MODE_MD)
	MX   = Mode(bpfobj.INT_MODE_MX)
	XD   = Mode(bpfobj.INT_MODE_XD)
	MD10 = Mode(bpfobj.INT_MODE_MD10)
)

// Modes are the names of all modes.
var Modes = []string{"md", "md1.0", "mx", "xd", "none"}

var modeOf = map[string]Mode{"md": MD, "md1.0": MD10, "mx": MX, "xd": XD, "none": None}

// ParseMode reads one of Modes.
func ParseMode(text string) (Mode, error) {
	m, ok := modeOf[text]
	if !ok {
		return 0, fault.Usage.Errorf("‹mode› %q: use %s", text, strings.Join(Modes, ", "))
	}
	return m, nil
}

// String is the mode as ParseMode reads it.
func (m Mode) String() string {
	for name, mode := range modeOf {
		if mode == m {
			return name
		}
	}
	return strconv.Itoa(int(m))
}

func (m Mode) format() intwire.Format {
	if m == MD10 {
		return intwire.INT10
	}
	return intwire.INT20
}

// instruction is a bit of the bitmap that nodes know.
type instruction struct {
	name string
	bit  uint16
}

var instructions = []instruction{
	{"node-id", 0x8000}, {"l1-ports", 0x4000}, {"hop-latency", 0x2000}, {"queue", 0x1000},
	{"ingress-time", 0x0800}, {"egress-time", 0x0400}, {"l2-ports", 0x0200}, {"utilisation", 0x0100},
}

// DefaultInstructions are node id, level-1 ports, hop latency, queue, and both times.
const DefaultInstructions = 0xfc00

// InstructionNames are those that ParseInstructions knows.
func InstructionNames() (names []string) {
	for _, i := range instructions {
		names = append(names, i.name)
	}
	return names
}

// ParseInstructions reads names with commas between them, or a bitmap such as 0xfc00.
func ParseInstructions(text string) (bitmap uint16, err error) {
	if n, err := strconv.ParseUint(text, 0, 16); err == nil {
		return uint16(n), nil
	}
	for _, name := range strings.Split(text, ",") {
		i := slices.IndexFunc(instructions, func(i instruction) bool { return i.name == strings.TrimSpace(name) })
		if i < 0 {
			return 0, fault.Usage.Errorf("‹instructions› %q: there is no %q: use %s, or a bitmap such as 0x%04x", text, name, strings.Join(InstructionNames(), ", "), DefaultInstructions)
		}
		bitmap |= instructions[i].bit
	}
	return bitmap, nil
}

// InstructionText names the bits of a bitmap.
func InstructionText(bitmap uint16) string {
	var names []string
	for _, i := range instructions {
		if bitmap&i.bit != 0 {
			names = append(names, i.name)
			bitmap &^= i.bit
		}
	}
	if bitmap != 0 {
		names = append(names, fmt.Sprintf("0x%04x", bitmap))
	}
	return strings.Join(names, ",")
}

// known are the bits that a format has.
func known(f intwire.Format) (bitmap uint16) {
	for i := range intwire.Rows {
		if r := &intwire.Rows[i]; r.Formats&(1<<f) != 0 {
			bitmap |= 0x8000 >> r.Bit
		}
	}
	return bitmap
}

// MaxEntries is how many a watchlist has, and MaxQuote how many bytes a report quotes at most; as in bpf/int/abi.h.
const (
	MaxEntries = 16
	maxWords   = 31
	MaxQuote   = 1280
)

// words are those that a hop adds.
func (e *Entry) words() int { return intwire.Words(e.Mode.format(), e.Instructions, 0) }

func (e *Entry) check(m Mark) error {
	unknown := e.Instructions &^ known(e.Mode.format())
	switch {
	case e.Mode == None:
		return nil
	case e.Instructions == 0:
		return fault.Usage.Errorf("‹instructions›: there is none")
	case unknown != 0:
		return fault.Usage.Errorf("‹instructions› 0x%04x: bit %d is not one that INT %s knows", e.Instructions, bits.LeadingZeros16(unknown), versionOf(e.Mode))
	case e.words() > maxWords:
		return fault.Usage.Errorf("‹instructions› 0x%04x: %d words a hop, at most %d", e.Instructions, e.words(), maxWords)
	case e.Hops == 0:
		return fault.Usage.Errorf("‹hops› 0: use 1 to 255")
	case e.Mode == MD10 && m.Mask == 0:
		return fault.Usage.Errorf("‹mark› %v: INT 1.0 is not marked by a port: use dscp=VALUE/MASK", m)
	}
	return nil
}

func versionOf(m Mode) string {
	if m == MD10 {
		return "1.0"
	}
	return "2.1"
}

// Check refuses options that make no sense.
func (o *Options) Check() error {
	switch {
	case len(o.Entries) == 0 || len(o.Entries) > MaxEntries:
		return fault.Usage.Errorf("%d entries in the watchlist: use 1 to %d", len(o.Entries), MaxEntries)
	case o.Report != Report20 && o.Report != Report10:
		return fault.Usage.Errorf("‹report› %q: use %s or %s", o.Report, Report20, Report10)
	case o.Quote < 0 || o.Quote > MaxQuote:
		return fault.Usage.Errorf("‹quote› %d: use 0 to %d", o.Quote, MaxQuote)
	case o.Lease < 0 || o.Lease > 0 && o.Lease < time.Second:
		return fault.Usage.Errorf("‹lease› %v: use 1s or more, or 0 for ever", o.Lease)
	case o.Mark.Mask == 0 && o.Mark.Port == o.Address.Port():
		return fault.Usage.Errorf("‹mark› %v: that is the port of the reports to %v", o.Mark, o.Address)
	}
	for i := range o.Entries {
		if err := o.Entries[i].check(o.Mark); err != nil {
			return err
		}
	}
	return nil
}

// MatchesReports reports whether an entry that names packets, and not all, asks for telemetry reports to
// the collector. These never get INT.
func (o *Options) MatchesReports() bool {
	b := make([]byte, 48) // IPv4 and UDP, and a little of a report
	b[0], b[3], b[8], b[9] = 0x45, byte(len(b)), 64, 17
	if a := o.Address.Addr(); a.Is4() {
		ip := a.As4()
		copy(b[12:], ip[:])
		copy(b[16:], ip[:])
	} else {
		ip := a.As16()
		b = append(make([]byte, 40), b[20:]...)
		b[0], b[5], b[6], b[7] = 0x60, byte(len(b)-40), 17, 64
		copy(b[8:], ip[:])
		copy(b[24:], ip[:])
	}
	port := o.Address.Port()
	b[len(b)-26], b[len(b)-25] = byte(port>>8), byte(port)
	for i := range o.Entries {
		e := &o.Entries[i]
		insns, ok := bpf.Disassemble(e.Program)
		if e.Mode == None || len(e.Program) == 0 || !ok {
			continue
		}
		if vm, err := bpf.NewVM(insns); err == nil {
			if n, err := vm.Run(b); err == nil && n > 0 {
				return true
			}
		}
	}
	return false
}
