// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/loader"
)

// Port is an interface at which a domain has a program at either TC hook. Its methods run in the interface's namespace.
type Port struct {
	Kind    Kind
	Domain  string
	By      string // hook.ByTCX or hook.ByClsact
	Name    string // what the domain calls it in its pins
	Ifindex int
}

// Pair is the programs of a port, by hook.Direction. The caller closes it: what is attached stays.
type Pair [2]*ebpf.Program

// Close closes the programs that are there.
func (p Pair) Close() {
	for _, prog := range p {
		prog.Close() // of nil, too
	}
}

// At is one of the port's two hooks, with what the program there is known by.
func (p Port) At(d hook.Direction) hook.TC {
	return hook.TC{
		By: p.By, Ifindex: p.Ifindex, Direction: d, Behind: p.Kind.Layer.behind(), Name: p.Kind.FilterName(p.Domain),
		Pin: p.Kind.Pin(p.Domain, linkPrefix+p.Name+"-"+Suffix(d)),
	}
}

// Stands reports whether both programs are there: the interface can be gone, and another one have its number.
func (p Port) Stands() bool {
	return p.At(hook.Ingress).Stands() && p.At(hook.Egress).Stands()
}

// LacksQdisc reports whether Attach would make the clsact qdisc. What a domain makes is in its description before it is there:
// afterwards nobody can tell whose a qdisc is that has no filter.
func (p Port) LacksQdisc() (bool, error) {
	if p.By != hook.ByClsact {
		return false, nil
	}
	lacks, err := hook.LacksClsact(p.Ifindex)
	if err != nil {
		return false, loader.QdiscError(err)
	}
	return lacks, nil
}

// Attach puts both programs there, first what takes off again what the other one gives to packets. One that stands already stays, or
// is replaced at once for every packet. made: the clsact qdisc was missing. On failure what was missing is missing again.
func (p Port) Attach(progs Pair, replace bool) (made bool, err error) {
	if p.By == hook.ByClsact {
		if made, err = hook.EnsureClsact(p.Ifindex); err != nil {
			return false, loader.QdiscError(err)
		}
	}
	var put []hook.TC
	for _, d := range p.Kind.Layer.sides() {
		at := p.At(d)
		switch stands := at.Stands(); {
		case stands && !replace:
			continue
		case stands:
			err = at.Update(progs[d])
		default:
			if p.By == hook.ByTCX { // a process that was killed as it took the program off has left the pin
				_ = hook.Detach(at.Pin)
			}
			if err = at.Attach(progs[d]); err == nil {
				put = append(put, at)
			}
		}
		if err != nil {
			for i := len(put) - 1; i >= 0; i-- {
				_ = put[i].Detach() // the first error is the one to tell
			}
			if made {
				_ = hook.RemoveClsact(p.Ifindex)
			}
			return false, p.Kind.Layer.Failed(d, err)
		}
	}
	return made, nil
}

// TakeOff takes both programs off, in the reverse order, and the clsact qdisc if it is ours and nothing is in it. What is gone
// already is no error. With hook.ByTCX the namespace need not be there any more.
func (p Port) TakeOff(ownQdisc bool) error {
	sides := p.Kind.Layer.sides()
	var errs []error
	for _, d := range []hook.Direction{sides[1], sides[0]} {
		errs = append(errs, p.Kind.Layer.Failed(d, p.At(d).Detach()))
	}
	if p.By == hook.ByClsact && ownQdisc {
		errs = append(errs, hook.RemoveClsact(p.Ifindex))
	}
	return errors.Join(errs...)
}
