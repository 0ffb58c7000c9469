// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Direction is which of an interface's packets a program sees. The zero value is Ingress.
type Direction int

// The directions.
const (
	Ingress Direction = iota // packets that come in
	Egress                   // packets that go out
)

func (d Direction) String() string {
	if d == Egress {
		return "egress"
	}
	return "ingress"
}

// Point is a place in the kernel where a link keeps a program: TCX, XDP, Tracing or Netfilter.
type Point interface {
	fmt.Stringer
	attach(*ebpf.Program) (link.Link, error)
}

// TCX is before all other programs of that direction at an interface, or with Last behind those
// that are there (Linux 6.6). The program is an ebpf.SchedCLS.
type TCX struct {
	Ifindex   int
	Direction Direction
	Last      bool
	// Behind are the beginnings of the names, in the kernel, of programs that must see a packet
	// first: the new one is right behind the last of them.
	Behind []string
}

func (t TCX) String() string {
	return fmt.Sprintf("TCX %v of interface %d", t.Direction, t.Ifindex)
}

func (t TCX) kind() ebpf.AttachType {
	if t.Direction == Egress {
		return ebpf.AttachTCXEgress
	}
	return ebpf.AttachTCXIngress
}

// attachTries bounds how often a place is looked for again because others attach meanwhile.
const attachTries = 20

func (t TCX) attach(prog *ebpf.Program) (link.Link, error) {
	for try := 1; ; try++ {
		o := link.TCXOptions{Interface: t.Ifindex, Program: prog, Attach: t.kind(), Anchor: link.Head()}
		if t.Last {
			o.Anchor = link.Tail()
		}
		if len(t.Behind) > 0 {
			if err := t.place(&o); err != nil {
				return nil, err
			}
		}
		l, err := link.AttachTCX(o)
		if !errors.Is(err, unix.ESTALE) || try == attachTries {
			return l, err
		}
	}
}

// place finds the program that the new one goes behind. The kernel refuses the place (ESTALE) if
// the list of programs has changed meanwhile.
func (t TCX) place(o *link.TCXOptions) error {
	there, err := link.QueryPrograms(link.QueryOptions{Target: t.Ifindex, Attach: t.kind()})
	if err != nil {
		return err
	}
	o.ExpectedRevision = there.Revision
	for _, p := range there.Programs {
		name := programName(p.ID)
		if slices.ContainsFunc(t.Behind, func(before string) bool { return strings.HasPrefix(name, before) }) {
			o.Anchor = link.AfterProgramByID(p.ID)
		}
	}
	return nil
}

// programName is what the kernel calls a program; "" if it is gone.
func programName(id ebpf.ProgramID) string {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return ""
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return ""
	}
	return info.Name
}

// XDP is before the kernel makes socket buffers of what comes in at an interface (links: Linux
// 5.9). An interface has one such program. With Generic the kernel runs it itself, right after it
// has made the buffer; else the driver does, if it can.
type XDP struct {
	Ifindex int
	Generic bool
}

func (x XDP) String() string { return fmt.Sprintf("XDP of interface %d", x.Ifindex) }

func (x XDP) attach(prog *ebpf.Program) (link.Link, error) {
	flags := link.XDPDriverMode
	if x.Generic {
		flags = link.XDPGenericMode
	}
	return link.AttachXDP(link.XDPOptions{Program: prog, Interface: x.Ifindex, Flags: flags})
}

// Tracing is a function or a raw tracepoint of the kernel. The program names it when it is loaded
// (ebpf.ProgramSpec.AttachTo); here it is for errors only, such as "tp_btf/kfree_skb".
type Tracing string

func (t Tracing) String() string { return string(t) }

func (t Tracing) attach(prog *ebpf.Program) (link.Link, error) {
	return link.AttachTracing(link.TracingOptions{Program: prog})
}

// First is the priority of a netfilter program that sees packets before all others. (The kernel
// refuses the very first number.)
const First = math.MinInt32 + 1

// LocalIn is the netfilter hook that sees what is delivered to the namespace itself.
const LocalIn = link.NetfilterInetLocalIn

// Netfilter is a hook of netfilter in the calling thread's namespace (Linux 6.4). The link keeps
// that namespace alive, and with it the interfaces of a container that has ended: do not pin it,
// and close it when the namespace has lost its name.
type Netfilter struct {
	IPv6     bool
	Hook     link.NetfilterInetHook
	Priority int32 // the lowest one sees a packet first
}

func (n Netfilter) String() string {
	family := "IPv4"
	if n.IPv6 {
		family = "IPv6"
	}
	return fmt.Sprintf("%s hook %v of netfilter, priority %d", family, n.Hook, n.Priority)
}

func (n Netfilter) attach(prog *ebpf.Program) (link.Link, error) {
	family := link.NetfilterProtocolFamily(link.NetfilterProtoIPv4)
	if n.IPv6 {
		family = link.NetfilterProtoIPv6
	}
	return link.AttachNetfilter(link.NetfilterOptions{Program: prog, ProtocolFamily: family, Hook: n.Hook, Priority: n.Priority})
}

// Attach puts prog at a point, where it stays until the returned link is closed or the process
// ends. prog stays the caller's, who may close it. Errors are *Error.
func Attach(prog *ebpf.Program, at Point) (io.Closer, error) {
	l, err := at.attach(prog)
	if err != nil {
		return nil, attachError(at, err)
	}
	return l, nil
}

// AttachPinned puts prog at a point, where it stays until Detach(pin), whatever becomes of this
// process. On failure nothing stays. Errors are *Error.
func AttachPinned(prog *ebpf.Program, at Point, pin string) error {
	l, err := at.attach(prog)
	if err != nil {
		return attachError(at, err)
	}
	if err := l.Pin(pin); err != nil {
		err = &Error{Step: "pin link", Kind: kindOf(err), Cause: err}
		return errors.Join(err, l.Close())
	}
	return l.Close()
}

func attachError(at Point, err error) error {
	return &Error{Step: "attach", Subject: at.String(), Kind: kindOf(err), Cause: err}
}

// Update puts prog in place of the one that a pin keeps at TCX or XDP, at once for every packet. The
// place among others stays. Errors are *Error.
func Update(prog *ebpf.Program, pin string) error {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return &Error{Step: "open link", Kind: kindOf(err), Cause: err}
	}
	defer l.Close()
	if err := l.Update(prog); err != nil {
		return &Error{Step: "replace the program of a link", Kind: kindOf(err), Cause: err}
	}
	return nil
}

// Detach takes off what a pin keeps, and removes the pin. (To remove the pin alone would take it
// off too, but some time later.) What is gone already is no error. A pin that holds no link is
// removed: it can be a map or a program.
func Detach(pin string) error {
	l, err := link.LoadPinnedLink(pin, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		// Not a link, or one of a kind that is not known: the caller says that it is ours.
		return remove(pin)
	}
	// Tracing links cannot be detached, and one whose interface is gone need not
	// be: closing the last reference does it.
	_ = l.Detach()
	err = remove(pin)
	return errors.Join(err, l.Close())
}

func remove(pin string) error {
	if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &Error{Step: "remove pin", Kind: kindOf(err), Cause: err}
	}
	return nil
}

// Standing is what a pinned link keeps.
type Standing struct {
	Program ebpf.ProgramID
	Kind    link.Type
	Ifindex int // of TCX and XDP, in the interface's own namespace; 0: it is gone
}

// Look says what the pin keeps. No pin, or one that holds no link, is an error; the first is
// fs.ErrNotExist.
func Look(pin string) (Standing, error) {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return Standing{}, &Error{Step: "open link", Kind: kindOf(err), Cause: err}
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return Standing{}, &Error{Step: "read link", Kind: kindOf(err), Cause: err}
	}
	s := Standing{Program: info.Program, Kind: info.Type}
	if tcx := info.TCX(); tcx != nil {
		s.Ifindex = int(tcx.Ifindex)
	}
	if xdp := info.XDP(); xdp != nil {
		s.Ifindex = int(xdp.Ifindex)
	}
	return s, nil
}
