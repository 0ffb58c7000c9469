// SPDX-License-Identifier: Apache-2.0

// Package xdp takes telemetry reports that say nothing new at XDP, before they become socket
// buffers: docs/design/0011-metrics.md. What it knows of reports are templates that pkg/telemetry/collect
// makes.
package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// Mode is how the program is attached.
type Mode string

// The modes. Native XDP on a veth switches off segmentation offloads of its peer and limits its
// MTU, so that Auto is Generic there.
const (
	Auto    Mode = "auto"
	Native  Mode = "native"
	Generic Mode = "generic"
)

// Modes are all of them.
func Modes() []string { return []string{string(Auto), string(Native), string(Generic)} }

// Options say what to attach where.
type Options struct {
	Device string
	Mode   Mode
	Ports  []uint16 // of reports
	// Addresses that reports come to; none: those of the device. What goes to others passes.
	Addresses []netip.Addr
	// Allow is whose reports are heard; none: anybody's. Others' are counted, and go no further.
	Allow  []netip.Prefix
	Shared int           // how many shared bands there are at most
	Flows  int           // templates of ordinary size; large ones are a sixteenth of that
	Age    time.Duration // templates that take nothing for so long go; 0: never

	mtu int
}

// maxPorts and maxAddresses are PORTS and LOCALS of bpf/collect/abi.h.
const (
	maxPorts     = 64
	maxAddresses = 16
)

// upBuffer is what each CPU has for reports that wait for user space, bytes.
const upBuffer = 4 << 20

// Path is an attached fast path. Its methods are for one goroutine, but for Close and Stats.
type Path struct {
	Mode     Mode  // Native or Generic
	NoNative error // why Auto has not become Native, if that was tried

	device string
	objs   bpfobj.CollectObjects
	link   io.Closer
	reader *perf.Reader
	flows  map[uint64]*flow
	small  bpfobj.CollectSmall
	large  bpfobj.CollectLarge
	now    time.Time // of the last sweep
	age    time.Duration
	full   atomic.Uint64

	mu       sync.Mutex // of what follows, and of link
	closed   bool
	up, shed uint64
	refused  uint64
}

// ErrTooOld: the kernel cannot do it.
var ErrTooOld = errors.New("this kernel cannot attach XDP programs by links: Linux 5.9")

// Attach attaches the program to an interface of this namespace. It is detached by Close, and
// when the process ends.
func Attach(o Options) (*Path, error) {
	device, own, err := find(o.Device)
	if err != nil {
		return nil, err
	}
	if o.mtu = device.Attrs().MTU; len(o.Addresses) == 0 {
		o.Addresses = own
	}
	p, err := open(&o)
	if err != nil {
		return nil, err
	}
	if err := p.attach(&o, device); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// open loads the programs.
func open(o *Options) (*Path, error) {
	if len(o.Ports) == 0 || len(o.Ports) > maxPorts {
		return nil, fmt.Errorf("%d ports of reports: use 1 to %d", len(o.Ports), maxPorts)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lock memory of maps: %w", err)
	}
	p := &Path{flows: make(map[uint64]*flow), now: time.Now(), age: o.Age, device: o.Device}
	if err := p.load(o); err != nil {
		return nil, err
	}
	var err error
	if p.reader, err = perf.NewReader(p.objs.Up, upBuffer); err != nil {
		return nil, errors.Join(fmt.Errorf("buffer for reports: %w", err), p.Close())
	}
	return p, nil
}

func (p *Path) load(o *Options) error {
	spec, err := bpfobj.LoadCollect()
	if err != nil {
		return fmt.Errorf("fast path: %w", err)
	}
	var ports [maxPorts]uint16
	copy(ports[:], o.Ports)
	type address struct{ A, B uint64 }
	var locals [maxAddresses]address
	n := min(len(o.Addresses), maxAddresses) // what goes to more than these comes by the socket
	for i, a := range o.Addresses[:n] {
		b := a.As16() // of IPv4 ::ffff:a.b.c.d
		locals[i] = address{binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:])}
	}
	for name, value := range map[string]any{
		bpfobj.CollectVarCfgPorts: ports, bpfobj.CollectVarCfgPortCount: uint32(len(o.Ports)),
		bpfobj.CollectVarCfgLocals: locals, bpfobj.CollectVarCfgLocalCount: uint32(n),
		bpfobj.CollectVarCfgAllowedCount: uint32(len(o.Allow)), bpfobj.CollectVarCfgMtu: uint32(o.mtu),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("fast path: %w", err)
		}
	}
	spec.Maps["allowed"].MaxEntries = uint32(max(len(o.Allow), 1))
	spec.Maps["bands"].MaxEntries = uint32(max(o.Shared, 1))
	spec.Maps["small_templates"].MaxEntries = uint32(max(o.Flows, 16))
	spec.Maps["large_templates"].MaxEntries = uint32(max(o.Flows/16, 16))
	if err := spec.LoadAndAssign(&p.objs, nil); err != nil {
		return fmt.Errorf("load the fast path: %w", err)
	}
	for _, from := range o.Allow {
		if err := p.objs.Allowed.Put(allowed(from), uint32(1)); err != nil {
			return errors.Join(fmt.Errorf("whose reports are heard: %w", err), p.objs.Close())
		}
	}
	if err := p.objs.More.Put(uint32(0), p.objs.RadarCollectLarge); err != nil {
		return errors.Join(fmt.Errorf("load the fast path: %w", err), p.objs.Close())
	}
	return nil
}

// allowed is a prefix as the program has it.
func allowed(p netip.Prefix) bpfobj.CollectAllowed {
	a, bits := p.Addr().As16(), p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	key := bpfobj.CollectAllowed{Bits: uint32(bits)}
	for i := range key.Addr {
		key.Addr[i] = binary.NativeEndian.Uint32(a[4*i:])
	}
	return key
}

// Check reports whether there is an interface with an address to attach to.
func Check(device string) error {
	_, _, err := find(device)
	return err
}

// find returns an interface and its addresses, of which it has some.
func find(name string) (device netlink.Link, list []netip.Addr, err error) {
	if device, err = netlink.LinkByName(name); err != nil {
		return nil, nil, fmt.Errorf("interface %s: %w", name, err)
	}
	all, err := host.RetryDump(func() ([]netlink.Addr, error) { return netlink.AddrList(device, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, nil, fmt.Errorf("addresses of %s: %w", name, err)
	}
	for _, a := range all {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			list = append(list, ip.Unmap())
		}
	}
	if len(list) == 0 {
		return nil, nil, fmt.Errorf("interface %s has no address that reports could come to", name)
	}
	return device, list, nil
}

// attach chooses the mode.
func (p *Path) attach(o *Options, device netlink.Link) error {
	modes := []Mode{o.Mode}
	if o.Mode == Auto {
		if modes = []Mode{Native, Generic}; device.Type() == "veth" {
			modes = []Mode{Generic}
		}
	}
	var errs []error
	for _, mode := range modes {
		l, err := hook.Attach(p.objs.RadarCollect, hook.XDP{Ifindex: device.Attrs().Index, Generic: mode == Generic})
		if err == nil {
			p.link, p.Mode, p.NoNative = l, mode, errors.Join(errs...)
			return nil
		}
		failed, _ := errors.AsType[*hook.Error](err)
		if err = failed.Cause; failed.Kind == hook.ErrUnsupported {
			err = ErrTooOld
		}
		errs = append(errs, fmt.Errorf("attach to %s, %s: %w", o.Device, mode, err))
	}
	return errors.Join(errs...)
}

// Stop detaches the program, and ends Receive when that has read all and accounted for all. Close
// comes after it.
func (p *Path) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.link == nil {
		return nil
	}
	err := p.link.Close()
	p.link = nil
	return errors.Join(err, p.reader.Flush())
}

// Close detaches the program and frees all but what About says.
func (p *Path) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.count()
	p.closed = true
	var errs []error
	if p.link != nil {
		errs = append(errs, p.link.Close())
	}
	if p.reader != nil {
		errs = append(errs, p.reader.Close())
	}
	return errors.Join(append(errs, p.objs.Close())...)
}

// About fills in what the path is and has done, also when it is closed.
func (p *Path) About(i *collect.FastInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.count()
	}
	i.Device, i.Mode, i.Full, i.SlowPath, i.QueueDrops, i.Refused = p.device, string(p.Mode), p.full.Load(), p.up, p.shed, p.refused
}

func (p *Path) count() {
	p.up, p.shed, p.refused = sum(p.objs.Ups), sum(p.objs.Shed), sum(p.objs.Refused)
}

// sum is the first number of a map, of all CPUs.
func sum(m *ebpf.Map) (n uint64) {
	var perCPU []uint64
	if m.Lookup(uint32(0), &perCPU) != nil {
		return 0
	}
	for _, of := range perCPU {
		n += of
	}
	return n
}
