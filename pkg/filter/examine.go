// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/record"
)

// value is what is known of a register, whatever the record.
type value struct {
	c       uint32 // its bits, if fixed
	unheld  uint32 // bits that records do not hold
	what    string // whose bits these are
	fixed   bool   // what unheld leaves is c
	isLen   bool   // c + the length of the IPv4 header, not known as a number
	role    role   // what it is for branches
	notFlow bool   // differs between packets of a flow
}

// role is what a register holds of a header, where comparing it says more about the
// packet.
type role uint8

const (
	noRole      role = iota
	versionByte      // the first byte, with the version
	version          // the version alone, in the upper four bits of a byte
	proto4           // IPv4's protocol
	frag4            // IPv4's flags and fragment offset
	next6            // IPv6's next header
	inner6           // the next header of IPv6's fragment header
)

func constant(c uint32) value { return value{c: c, fixed: true} }

// known reports whether the value is one number.
func (v value) known() bool { return v.fixed && v.unheld == 0 }

// join is what is known where two branches meet.
func join(a, b value) value {
	if a == b {
		return a
	}
	what := a.what
	if what == "" {
		what = b.what
	}
	return value{unheld: a.unheld | b.unheld, what: what, notFlow: a.notFlow || b.notFlow}
}

// state is what is known before an instruction.
type state struct {
	reached bool
	a, x    value
	mem     [16]value
	// What the packet can still be: protocols of IPv4, next headers of IPv6, and the
	// next headers behind IPv6's fragment header.
	v4, v6, inner protoSet
}

// possible reports whether any packet gets here.
func (s *state) possible() bool {
	v6 := s.v6
	if s.inner.empty() {
		v6 = v6.without(record.ProtoFragment)
	}
	return !s.v4.empty() || !v6.empty()
}

func (s *state) join(o *state) {
	if !s.reached {
		*s = *o
		return
	}
	s.a, s.x = join(s.a, o.a), join(s.x, o.x)
	for i := range s.mem {
		s.mem[i] = join(s.mem[i], o.mem[i])
	}
	s.v4, s.v6, s.inner = s.v4.or(o.v4), s.v6.or(o.v6), s.inner.or(o.inner)
}

// examiner follows all paths through a program at once. Classic BPF only jumps
// forward, so each instruction is met once, after all that lead to it.
type examiner struct {
	insns  []bpf.Instruction
	states []state
	unheld string // the first such field whose value matters
	flow   bool
}

// examine finds out what a program's answer depends on: unheld names a field that
// records do not hold, flow says that a flow's addresses, protocol and ports do.
func examine(insns []bpf.Instruction) (unheld string, flow bool) {
	e := &examiner{insns: insns, states: make([]state, len(insns)+1), flow: true}
	e.states[0] = state{reached: true, a: constant(0), x: constant(0), v4: allProtos, v6: allProtos, inner: allProtos}
	for pc := range insns {
		if e.states[pc].reached {
			e.step(pc)
		}
	}
	return e.unheld, e.flow
}

// to hands the state on to an instruction.
func (e *examiner) to(pc int, s *state) {
	if s.possible() {
		e.states[min(pc, len(e.insns))].join(s)
	}
}

// use notes that the answer depends on the bits of v that mask has.
func (e *examiner) use(v value, mask uint32) {
	if v.unheld&mask != 0 && e.unheld == "" {
		e.unheld = v.what
	}
	if v.notFlow {
		e.flow = false
	}
}

func (e *examiner) step(pc int) {
	s := e.states[pc]
	switch in := e.insns[pc].(type) {
	case bpf.RetConstant:
		return
	case bpf.RetA:
		e.use(s.a, ^uint32(0))
		return
	case bpf.Jump:
		e.to(pc+1+int(in.Skip), &s)
		return
	case bpf.JumpIf:
		e.branch(pc, &s, in.Cond, constant(in.Val), in.SkipTrue, in.SkipFalse)
		return
	case bpf.JumpIfX:
		e.branch(pc, &s, in.Cond, s.x, in.SkipTrue, in.SkipFalse)
		return
	case bpf.LoadConstant:
		*s.register(in.Dst) = constant(in.Val)
	case bpf.LoadScratch:
		*s.register(in.Dst) = s.mem[in.N]
	case bpf.StoreScratch:
		s.mem[in.N] = *s.register(in.Src)
	case bpf.TAX:
		s.x = s.a
	case bpf.TXA:
		s.a = s.x
	case bpf.LoadMemShift:
		s.x = s.headerLen(in.Off)
	case bpf.LoadAbsolute:
		s.a = e.load(&s, constant(in.Off), in.Size)
	case bpf.LoadIndirect:
		s.a = e.load(&s, calculate(bpf.ALUOpAdd, s.x, constant(in.Off)), in.Size)
	case bpf.LoadExtension:
		s.a = value{notFlow: true} // the length: records have it
	case bpf.NegateA:
		s.a = calculate(bpf.ALUOpMul, s.a, constant(^uint32(0)))
	case bpf.ALUOpConstant:
		s.a = calculate(in.Op, s.a, constant(in.Val))
	case bpf.ALUOpX:
		s.a = calculate(in.Op, s.a, s.x)
	}
	e.to(pc+1, &s)
}

func (s *state) register(r bpf.Register) *value {
	if r == bpf.RegX {
		return &s.x
	}
	return &s.a
}

// branch follows both outcomes of a comparison of A with v, as far as they can be taken.
func (e *examiner) branch(pc int, s *state, cond bpf.JumpTest, v value, skipTrue, skipFalse uint8) {
	yes, no := *s, *s
	if s.a.known() && v.known() {
		if holds(cond, s.a.c, v.c) {
			no = state{}
		} else {
			yes = state{}
		}
	} else {
		e.compare(s, cond, v)
	}
	if v.known() {
		switch cond {
		case bpf.JumpEqual:
			yes.is(s.a.role, v.c)
			no.isNot(s.a.role, v.c)
		case bpf.JumpNotEqual:
			yes.isNot(s.a.role, v.c)
			no.is(s.a.role, v.c)
		}
	}
	e.to(pc+1+int(skipTrue), &yes)
	e.to(pc+1+int(skipFalse), &no)
}

// is takes over that what a register holds is c.
func (s *state) is(r role, c uint32) {
	switch r {
	case version:
		if c != version4 {
			s.v4 = protoSet{}
		}
		if c != version6 {
			s.v6 = protoSet{}
		}
	case proto4:
		s.v4 = s.v4.only(c)
	case next6:
		s.v6 = s.v6.only(c)
	case inner6:
		s.inner = s.inner.only(c)
	}
}

// isNot takes over that it is not c.
func (s *state) isNot(r role, c uint32) {
	switch {
	case r == version && c == version4:
		s.v4 = protoSet{}
	case r == version && c == version6:
		s.v6 = protoSet{}
	case r == proto4:
		s.v4 = s.v4.without(c)
	case r == next6:
		s.v6 = s.v6.without(c)
	case r == inner6:
		s.inner = s.inner.without(c)
	}
}

// compare notes what a comparison asks for.
func (e *examiner) compare(s *state, cond bpf.JumpTest, v value) {
	mask := ^uint32(0)
	if (cond == bpf.JumpBitsSet || cond == bpf.JumpBitsNotSet) && v.known() {
		mask = v.c
	}
	a := s.a
	if a.role == frag4 && mask&fragOffset == fragOffset {
		switch mask {
		case fragOffset:
			// Whether it is a later fragment: those of a flow have no ports.
			a.notFlow = !s.v4.allHavePorts()
		case fragOffset | moreFragments:
			a.unheld = 0 // whether it is a fragment at all: records say that
		}
	}
	e.use(a, mask)
	e.use(v, ^uint32(0))
}

func holds(cond bpf.JumpTest, a, b uint32) bool {
	switch cond {
	case bpf.JumpEqual:
		return a == b
	case bpf.JumpNotEqual:
		return a != b
	case bpf.JumpGreaterThan:
		return a > b
	case bpf.JumpLessThan:
		return a < b
	case bpf.JumpGreaterOrEqual:
		return a >= b
	case bpf.JumpLessOrEqual:
		return a <= b
	case bpf.JumpBitsSet:
		return a&b != 0
	}
	return a&b == 0
}

// calculate is what an operation makes of two values.
func calculate(op bpf.ALUOp, a, b value) value {
	v := join(a, b)
	v = value{unheld: spread(v.unheld), what: v.what, notFlow: v.notFlow}
	if !b.known() {
		if op == bpf.ALUOpAdd && b.isLen {
			return calculate(op, b, a)
		}
		return v
	}
	switch op {
	case bpf.ALUOpAnd:
		if a.role == versionByte && b.c == versionMask {
			return value{role: version}
		}
		v.unheld, v.fixed, v.c = a.unheld&b.c, a.fixed, a.c&b.c
	case bpf.ALUOpShiftRight:
		v.unheld, v.fixed, v.c = a.unheld>>b.c, a.fixed, a.c>>b.c
	case bpf.ALUOpShiftLeft:
		v.unheld, v.fixed, v.c = a.unheld<<b.c, a.fixed, a.c<<b.c
	case bpf.ALUOpAdd:
		v.fixed, v.isLen, v.c = a.known(), a.isLen, a.c+b.c
	}
	if v.unheld == 0 {
		v.what = ""
	}
	return v
}

// spread is where bits may get by arithmetic.
func spread(bits uint32) uint32 {
	if bits == 0 {
		return 0
	}
	return ^uint32(0)
}
