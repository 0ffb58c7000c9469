// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"math/bits"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
)

// TestMeanings: every number that the programs count by has a name of its own, and words.
func TestMeanings(t *testing.T) {
	spec, err := bpfobj.LoadInt()
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]Meaning{"int_skip": Skipped[:], "int_done": Done[:]} {
		var enum *btf.Enum
		if err := spec.Types.TypeByName(name, &enum); err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for _, v := range enum.Values {
			if strings.HasSuffix(v.Name, "S") && v.Value == 32 { // how many there can be
				continue
			}
			if int(v.Value) >= len(list) || list[v.Value].Name == "" || list[v.Value].Help == "" {
				t.Errorf("%s (%d) has no words", v.Name, v.Value)
				continue
			}
			if seen[list[v.Value].Name] {
				t.Errorf("%s: its name %q is another's, too", v.Name, list[v.Value].Name)
			}
			seen[list[v.Value].Name] = true
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Mark{
		"dscp=0x17": {DSCP: 0x17, Mask: 0x3f}, "dscp=32/0x20": {DSCP: 32, Mask: 0x20}, "port=5000": {Port: 5000},
	} {
		if m, err := ParseMark(text); err != nil || m != want {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
		if again, err := ParseMark(want.String()); err != nil || again != want {
			t.Errorf("%v is read as %+v, %v", want, again, err)
		}
	}
	for _, text := range []string{"", "dscp", "dscp=64", "dscp=0", "dscp=1/0", "dscp=1/0x40", "dscp=3/2", "port=0", "port=65536", "port=x", "ttl=1"} {
		if m, err := ParseMark(text); !errors.Is(err, fault.Usage) {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
	for text, want := range map[string]uint16{"node-id": 0x8000, "node-id, queue": 0x9000, "0xfc00": 0xfc00, InstructionText(0xff00): 0xff00} {
		if b, err := ParseInstructions(text); err != nil || b != want {
			t.Errorf("%s: %#x, %v", text, b, err)
		}
	}
	if _, err := ParseInstructions("node-id,colour"); !errors.Is(err, fault.Usage) {
		t.Errorf("%v", err)
	}
	for _, name := range Modes {
		if m, err := ParseMode(name); err != nil || m.String() != name {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

// TestWords: how many words a hop has, by the texts of INT.
func TestWords(t *testing.T) {
	for bitmap := range uint16(1 << 8) {
		bitmap <<= 8
		e := Entry{Mode: MD, Instructions: bitmap}
		want := bits.OnesCount16(bitmap) + bits.OnesCount16(bitmap&0x0e00) // times and level-2 ports have two
		if e.words() != want {
			t.Errorf("INT 2.1, 0x%04x: %d words, want %d", bitmap, e.words(), want)
		}
		e.Mode = MD10
		if want -= bits.OnesCount16(bitmap & 0x0c00); e.words() != want {
			t.Errorf("INT 1.0, 0x%04x: %d words, want %d", bitmap, e.words(), want)
		}
	}
}

func TestCheckOptions(t *testing.T) {
	good := func() Options {
		o := DefaultOptions()
		o.Address = netip.MustParseAddrPort("127.0.0.1:32766")
		return o
	}
	if o := good(); o.Check() != nil {
		t.Fatal(o.Check())
	}
	for want, change := range map[string]func(*Options){
		"bit 9 is not one":       func(o *Options) { o.Entries[0].Instructions |= 0x0040 },
		"bit 14 is not one":      func(o *Options) { o.Entries[0].Instructions = 0x0002 },
		"bit 8 is not one":       func(o *Options) { o.Entries[0].Mode, o.Entries[0].Instructions = MD10, 0x0080 },
		"‹instructions›: there":  func(o *Options) { o.Entries[0].Instructions = 0 },
		"‹hops› 0":               func(o *Options) { o.Entries[0].Hops = 0 },
		"entries":                func(o *Options) { o.Entries = nil },
		"17 entries":             func(o *Options) { o.Entries = make([]Entry, 17) },
		"‹report› \"3\"":         func(o *Options) { o.Report = "3" },
		"‹quote› 1281":           func(o *Options) { o.Quote = 1281 },
		"‹lease› 1ms":            func(o *Options) { o.Lease = 1e6 },
		"the port of the report": func(o *Options) { o.Mark = Mark{Port: 32766} },
		"is not marked by":       func(o *Options) { o.Entries[0].Mode, o.Mark = MD10, Mark{Port: 1} },
	} {
		o := good()
		change(&o)
		if err := o.Check(); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestMatchesReports: an expression that asks for packets to the collector's port.
func TestMatchesReports(t *testing.T) {
	udpTo := func(port uint32) []bpf.RawInstruction { // of IPv4 and IPv6 without options
		raw, err := bpf.Assemble([]bpf.Instruction{
			bpf.LoadAbsolute{Off: 0, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf0}, bpf.JumpIf{Val: 0x60, SkipTrue: 2},
			bpf.LoadAbsolute{Off: 22, Size: 2}, bpf.Jump{Skip: 1}, bpf.LoadAbsolute{Off: 42, Size: 2},
			bpf.JumpIf{Val: port, SkipFalse: 1}, bpf.RetConstant{Val: 1}, bpf.RetConstant{},
		})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for _, address := range []string{"10.0.0.1:32766", "[fd00::1]:32766"} {
		for port, want := range map[uint32]bool{32766: true, 32767: false} {
			o := DefaultOptions()
			o.Address, o.Entries[0].Program = netip.MustParseAddrPort(address), udpTo(port)
			if o.MatchesReports() != want {
				t.Errorf("%s, an expression for port %d: %v", address, port, !want)
			}
		}
		o := DefaultOptions()
		o.Address = netip.MustParseAddrPort(address)
		if o.MatchesReports() {
			t.Error("all TCP and UDP is no expression that somebody wrote")
		}
	}
}
