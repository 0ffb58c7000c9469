// SPDX-License-Identifier: Apache-2.0

// Package filter decides which packets a user asked for: by the flags that select (Filter), and by
// tcpdump's filter expressions (Expr).
//
// libpcap does the compiling, to classic BPF that begins at the IP header. The data
// path (pkg/vnet/datapath) takes the same instructions to decide which packets are
// measured; here they run over a header rebuilt from a packet's numbers. CheckRecords
// refuses what these cannot answer.
//
// libpcap needs cgo. Built without it, or with the tag nopcap, Compile returns
// ErrNotBuilt; everything else works.
package filter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/bpf"
)

// ErrNotBuilt says that this program has no libpcap in it.
var ErrNotBuilt = errors.New("this radar was built without filter expressions: build it with cgo and libpcap-dev (CGO_ENABLED=1, without -tags nopcap)")

// Expr is a compiled expression. It is safe for concurrent use.
type Expr struct {
	text     string
	raw      []bpf.RawInstruction
	vm       *bpf.VM // over header.bytes
	onlyFlow bool
	unheld   string // what it reads that records do not hold
}

// Compile compiles an expression in the language of pcap-filter(7). It begins at the
// IP header, so there is no link layer to ask for. A host's name is resolved now.
//
// The error is libpcap's, with the expression, which the user must correct. Without
// libpcap it is ErrNotBuilt.
func Compile(text string) (*Expr, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("the filter expression is empty")
	}
	raw, err := compile(text)
	if errors.Is(err, ErrNotBuilt) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("filter expression %s: %w", quote(text), err)
	}
	e, err := newExpr(text, raw)
	if err != nil {
		return nil, fmt.Errorf("filter expression %s: %w", quote(text), err)
	}
	return e, nil
}

// MatchesTCPOrUDP reports whether some packet of TCP or UDP matches. libpcap finds out: it refuses what rejects all packets.
func (e *Expr) MatchesTCPOrUDP() bool {
	_, err := compile("(" + e.text + ") and (tcp or udp)")
	return err == nil
}

// maxQuoted bounds how much of an expression a message repeats.
const maxQuoted = 200

func quote(text string) string {
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "..."
	}
	return strconv.Quote(text)
}

func newExpr(text string, raw []bpf.RawInstruction) (*Expr, error) {
	insns, err := decode(raw)
	if err != nil {
		return nil, err
	}
	e := &Expr{text: text, raw: raw}
	if e.vm, err = bpf.NewVM(overRecords(insns)); err != nil {
		return nil, fmt.Errorf("run it over records: %w", err)
	}
	e.unheld, e.onlyFlow = examine(insns)
	return e, nil
}

// decode refuses what neither the data path nor this package can run.
func decode(raw []bpf.RawInstruction) ([]bpf.Instruction, error) {
	insns := make([]bpf.Instruction, len(raw))
	for i, r := range raw {
		insns[i] = r.Disassemble()
		switch in := insns[i].(type) {
		case bpf.RawInstruction:
			return nil, fmt.Errorf("libpcap made an instruction that radar does not know (%#04x)", in.Op)
		case bpf.LoadExtension:
			if in.Num != bpf.ExtLen {
				return nil, errors.New("it asks for more than the packet has (direction, interface, a negative offset): use addresses, protocols and ports")
			}
		case bpf.LoadAbsolute:
			if int32(in.Off) < 0 {
				return nil, errors.New("it reads at a negative offset")
			}
		case bpf.Jump:
			if int64(i)+1+int64(in.Skip) >= int64(len(raw)) {
				return nil, errors.New("it needs a loop, which the kernel does not take: use proto instead of protochain")
			}
		}
	}
	return insns, nil
}

// String returns the expression as it was given.
func (e *Expr) String() string { return e.text }

// Instructions returns the classic BPF. It returns 0 for a packet that does not
// match. Offsets count from the IP header. The caller must not change it.
func (e *Expr) Instructions() []bpf.RawInstruction { return e.raw }

// CheckRecords returns an error that names the field if the expression reads what
// records do not hold. Match means nothing then.
func (e *Expr) CheckRecords() error {
	if e.unheld == "" {
		return nil
	}
	return fmt.Errorf("filter expression %s: %s is not kept in records: ask for addresses, protocol, ports, TCP flags, numbers and window, ICMP type and echo numbers, TTL, TOS, ID, fragment offset or length", quote(e.text), e.unheld)
}

// OnlyFlow reports whether the expression reads nothing but addresses, protocol and
// ports, so that all packets of a flow get the same answer. A packet with these
// fields alone then stands for the flow; without ports, if its protocol has them, it
// stands for the later fragments.
func (e *Expr) OnlyFlow() bool { return e.unheld == "" && e.onlyFlow }
