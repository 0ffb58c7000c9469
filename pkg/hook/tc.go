// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// The ways in which a program stands at a TC hook. ByTCX needs Linux 6.6; Probe says which there
// are.
const (
	ByTCX    = "tcx"
	ByClsact = "clsact"
)

// TC is one of the two TC hooks of an interface. A program of ours there is before all others but
// those that it is to be behind, and outlives the process. It is an ebpf.SchedCLS, and returns TC_ACT_UNSPEC, which is TCX_NEXT,
// unless it is to decide for others too.
type TC struct {
	By        string // ByTCX or ByClsact
	Ifindex   int
	Direction Direction
	Pin       string   // of the link, with ByTCX
	Behind    []string // as TCX has it; with ByClsact nothing else of ours can be there
	Name      string   // of the filter, with ByClsact
}

func (t TC) point() TCX { return TCX{Ifindex: t.Ifindex, Direction: t.Direction, Behind: t.Behind} }

func (t TC) filter() Filter {
	return Filter{Ifindex: t.Ifindex, Direction: t.Direction, Name: t.Name}
}

// Attach puts prog there. Where a filter of our priority stands is ErrBusy; with ByClsact the
// qdisc must be there (EnsureClsact). Errors are *Error.
func (t TC) Attach(prog *ebpf.Program) error {
	if t.By == ByTCX {
		return AttachPinned(prog, t.point(), t.Pin)
	}
	return t.filter().Add(prog)
}

// Replace puts prog where another program of the same name is, and there is one at any time. With
// ByTCX the pin is another one, and the earlier program stays behind until it is detached.
func (t TC) Replace(prog *ebpf.Program) error {
	if t.By == ByTCX {
		return AttachPinned(prog, t.point(), t.Pin)
	}
	return t.filter().Replace(prog)
}

// Update puts prog in place of the one that is there, at once for every packet, and under the same
// pin. No packet sees both, or neither.
func (t TC) Update(prog *ebpf.Program) error {
	if t.By == ByTCX {
		return Update(prog, t.Pin)
	}
	return t.filter().Replace(prog)
}

// Detach takes the program off. What is gone already is no error. The qdisc stays
// (RemoveClsact).
func (t TC) Detach() error {
	if t.By == ByTCX {
		return Detach(t.Pin)
	}
	return t.filter().Remove()
}

// Stands reports whether the program is at this interface: it can be gone, and another one have
// its number.
func (t TC) Stands() bool {
	if t.By == ByTCX {
		s, err := Look(t.Pin)
		return err == nil && s.Ifindex == t.Ifindex && s.Kind == link.TCXType
	}
	return t.filter().Stands()
}
