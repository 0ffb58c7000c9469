// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
)

// Points at which a packet is stamped.
const (
	pointSent     = bpfobj.DUT_POINT_SENT
	pointReceived = bpfobj.DUT_POINT_RECEIVED
	pointReturned = bpfobj.DUT_POINT_RETURNED
	pointBack     = bpfobj.DUT_POINT_BACK
	points        = int(bpfobj.DUT_POINTS)
)

// programs are those of one run, at their places.
type programs struct {
	objs   bpfobj.DutObjects
	memory *ebpf.Memory
	off    []io.Closer
}

// load loads the programs of a run, whose trials have that many packets at most.
func load(run uint32, packets int) (*programs, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lock memory of maps: %w", err)
	}
	spec, err := bpfobj.LoadDut()
	if err != nil {
		return nil, fault.NotLoaded.Errorf("load programs: %w", err)
	}
	if err := spec.Variables[bpfobj.DutVarCfgRun].Set(run); err != nil {
		return nil, fault.NotLoaded.Errorf("load programs: %w", err)
	}
	spec.Maps[bpfobj.DutMapStamps].MaxEntries = uint32(packets)
	p := &programs{}
	if err := spec.LoadAndAssign(&p.objs, nil); err != nil {
		return nil, fault.NotLoaded.Errorf("load programs: %w", err)
	}
	if p.memory, err = p.objs.Stamps.Memory(); err != nil {
		return nil, errors.Join(fmt.Errorf("map stamps: %w", err), p.objs.Close())
	}
	return p, nil
}

// attach puts them at the ports. Those that stamp at ingress come last: what they read is there
// only when all others are.
func (p *programs) attach(in, out *Port, round bool, by string) error {
	end := p.objs.DutEnd
	if round {
		end = p.objs.DutReturn
	}
	type at struct {
		prog *ebpf.Program
		place
	}
	list := []at{
		{end, place{out, hook.Ingress, true, "end"}},
		{p.objs.DutReceived, place{out, hook.Ingress, false, "received"}},
	}
	if round {
		list = append(list,
			at{p.objs.DutEnd, place{in, hook.Ingress, true, "end"}},
			at{p.objs.DutBack, place{in, hook.Ingress, false, "back"}},
			at{p.objs.DutReturned, place{out, hook.Egress, true, "returned"}})
	}
	list = append(list, at{p.objs.DutSent, place{in, hook.Egress, true, "sent"}})
	for _, a := range list {
		off, err := a.attach(a.prog, by)
		if err != nil {
			return err
		}
		p.off = append(p.off, off)
	}
	return nil
}

// close takes them off, the newest first.
func (p *programs) close() error {
	var errs []error
	for i := len(p.off) - 1; i >= 0; i-- {
		errs = append(errs, p.off[i].Close())
	}
	p.off = nil
	return errors.Join(append(errs, p.objs.Close())...)
}

// begin makes a trial the one whose packets are stamped, and returns what was counted before.
func (p *programs) begin(t bpfobj.DutTrial) (tally bpfobj.DutTally, err error) {
	// From now on packets of the trial before are late: they touch no stamp.
	if err := p.objs.Now.Set(t); err != nil {
		return tally, fmt.Errorf("begin a trial: %w", err)
	}
	if _, err := p.memory.WriteAt(bytesOf(make([]bpfobj.DutStamps, t.Packets)), 0); err != nil {
		return tally, fmt.Errorf("clear stamps: %w", err)
	}
	return p.tally()
}

// tally is what was counted since the programs were loaded.
func (p *programs) tally() (t bpfobj.DutTally, err error) {
	if err := p.objs.Tally.Get(&t); err != nil {
		return t, fmt.Errorf("read counters: %w", err)
	}
	return t, nil
}

// read copies the stamps of the first n packets.
func (p *programs) read(n int) ([]bpfobj.DutStamps, error) {
	stamps := make([]bpfobj.DutStamps, n)
	if n == 0 {
		return nil, nil
	}
	if _, err := p.memory.ReadAt(bytesOf(stamps), 0); err != nil {
		return nil, fmt.Errorf("read stamps: %w", err)
	}
	return stamps, nil
}

// bytesOf is the memory of stamps.
func bytesOf(s []bpfobj.DutStamps) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(bpfobj.DutStamps{})))
}
