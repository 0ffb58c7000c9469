// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
)

// The ports of the tests' network h1 - r1 - h2, all three nodes attached, and an
// edge of r1 behind which nobody is.
const (
	h1Out  = 0
	r1In   = 1
	r1Out  = 2
	h2In   = 3
	r1Edge = 4 // source for what comes in, LEFT for what goes out
	closed = 5 // internal to the domain, sources nothing
	r1Raw  = 6 // an interface without Ethernet header
	h2Out  = 7
	// The namespace of a bridge between h1, h2 and h3: a member that leads outside, the
	// bridge device.
	member = 8
	bridge = 9
	h3In   = 10
	nPorts = 11
)

const (
	nodeH1   = 1
	nodeR1   = 2
	nodeH2   = 3
	nodeHost = 4
	nodeH3   = 5
)

const internal = uint16(bpfobj.TcRdrPortFlagRDR_PF_INTERNAL | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT)

var portTable = [nPorts]bpfobj.TcRdrPort{
	h1Out:  {Node: nodeH1, Flags: internal},
	r1In:   {Node: nodeR1, Flags: internal},
	r1Out:  {Node: nodeR1, Flags: internal},
	h2In:   {Node: nodeH2, Flags: internal},
	r1Edge: {Node: nodeR1, Flags: uint16(bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT)},
	closed: {Node: nodeR1, Flags: uint16(bpfobj.TcRdrPortFlagRDR_PF_INTERNAL)},
	r1Raw:  {Node: nodeR1, Flags: internal | uint16(bpfobj.TcRdrPortFlagRDR_PF_L3)},
	h2Out:  {Node: nodeH2, Flags: internal},
	member: {Node: nodeHost, Flags: uint16(bpfobj.TcRdrPortFlagRDR_PF_BRIDGE_PORT | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN)},
	bridge: {Node: nodeHost, Flags: internal | uint16(bpfobj.TcRdrPortFlagRDR_PF_BRIDGE)},
	h3In:   {Node: nodeH3, Flags: internal},
}

// Addresses that nodes own; packets.py sends from h1 to h2.
var localTable = map[bpfobj.TcRdrLocal]uint8{
	{Node: nodeH1, Addr: addr(10, 0, 1, 1)}: 1,
	{Node: nodeH2, Addr: addr(10, 0, 4, 2)}: 1,
}

// The same of IPv6; packets6.py sends from h1 to h2.
var local6Table = map[bpfobj.TcRdrLocal6]uint8{
	{Node: nodeH1, Addr: netip.MustParseAddr("2001:db8:1::1").As16()}: 1,
	{Node: nodeH2, Addr: netip.MustParseAddr("2001:db8:4::2").As16()}: 1,
}

func addr(a, b, c, d byte) uint32 { return binary.NativeEndian.Uint32([]byte{a, b, c, d}) }

func ifindex(port int) uint32  { return 10 + uint32(port) }
func netns(node uint16) uint32 { return 4026530000 + uint32(node) }

// config is what a test chooses; newDomain fills in the rest.
type config struct {
	slots     uint32        // 0: 4096; any power of two
	slotBytes uint32        // 0: as for 10 hops
	block     uint32        // 0: 64, at most slots / 4
	guid      string        // --guid-bits, "": auto
	carry     string        // --carry, "": mark
	timeout   time.Duration // 0: usualTimeout
	minAge    time.Duration
	keys      uint32 // 0: 1024
	cpu       int    // the test's CPU: the n-th that it may use
	watch     string // --watch
	ip6       int    // enum rdr_ip6, 0: by label; ip6Off
	noPull    bool   // bpf_skb_pull_data() fails
	bounded   bool   // loops end at constants, as where the kernel has no iterators
}

// hasIterators says whether the kernel can verify loops as iterators (bpf/backpack/loop.h).
var hasIterators = sync.OnceValue(kernel.Iterators)

// boundedLoops makes the domains of all tests those of kernels without iterators.
var boundedLoops bool

// usualTimeout is longer than a busy machine lets a test wait, and less than the minute by
// which tests make packets older.
const usualTimeout = 50 * time.Second

// ip6Off is a config that leaves IPv6 alone.
const ip6Off = -1

// domain is one loaded and filled set of programs and maps.
type domain struct {
	testing.TB
	*ebpf.Collection
	cpu    int
	ring   *ebpf.Memory
	layout *program.Layout
	block  uint32
	last   map[bpfobj.TcRdrCounter]uint64 // counters at the last counted()
	full   bool                           // packets go to the programs that do everything, past the fast path
}

// loadedDomains are kept for further tests of the same configuration: to verify the
// programs takes most of a test's time.
var loadedDomains = make(map[config]*domain)

// newDomain returns programs with empty maps and keeps the test on one CPU: what a
// CPU holds of the ring is its own.
func newDomain(t testing.TB, c config) *domain {
	t.Helper()
	need.AsRoot(t)
	pinCPU(t, c.cpu)
	c.bounded = boundedLoops || !hasIterators()
	d := loadedDomains[c]
	if d == nil {
		d = load(t, c)
		if d.layout.Slots <= 4096 {
			loadedDomains[c] = d
		} else {
			t.Cleanup(d.Close)
		}
	}
	d.TB, d.last = t, nil
	d.reset()
	t.Cleanup(d.checkSum)
	return d
}

func load(t testing.TB, c config) *domain {
	t.Helper()
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	l := c.layout(t)
	spec, err := bpfobj.LoadTc()
	if err != nil {
		t.Fatal(err)
	}
	d := &domain{TB: t, cpu: c.cpu, layout: l, block: or(c.block, min(64, l.Slots/4))}
	d.configure(spec, c)
	d.Collection, err = ebpf.NewCollection(spec)
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		t.Fatalf("load: %v", verifier)
	}
	if err != nil {
		t.Fatal(err)
	}
	if d.ring, err = d.Maps[bpfobj.TcMapRing].Memory(); err != nil {
		t.Fatal(err)
	}
	return d
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// layout asks the loader for the tables. It refuses rings as small as some tests
// want: those get the tables of the smallest that it takes.
func (c config) layout(t testing.TB) *program.Layout {
	t.Helper()
	o := program.DefaultOptions()
	o.Slots = max(or(c.slots, 4096), 4096)
	o.GUIDBits = or(c.guid, o.GUIDBits)
	o.Carry = or(c.carry, o.Carry)
	l, err := o.Layout()
	if err != nil {
		t.Fatal(err)
	}
	l.Slots = or(c.slots, l.Slots)
	if c.slotBytes != 0 {
		l.SlotBytes, l.Cells = c.slotBytes, 5+8*(c.slotBytes/64-2)
	}
	return l
}

// in makes d's failures those of a subtest, which has a thread of its own.
func (d *domain) in(t *testing.T) *domain {
	pinCPU(t, d.cpu)
	sub := *d
	sub.TB = t
	sub.last = sub.counters()
	return &sub
}

func (d *domain) configure(spec *ebpf.CollectionSpec, c config) {
	l := d.layout
	values := map[string]any{
		bpfobj.TcVarCfgSlots:      l.Slots,
		bpfobj.TcVarCfgCells:      l.Cells,
		bpfobj.TcVarCfgBlock:      d.block,
		bpfobj.TcVarCfgMaxSegs:    min(128, d.block),
		bpfobj.TcVarCfgIterators:  uint8(0),
		bpfobj.TcVarCfgDscpBits:   l.DSCPBits,
		bpfobj.TcVarCfgTtlWidth:   l.TTLWidth,
		bpfobj.TcVarCfgTtlBand:    l.TTLBand,
		bpfobj.TcVarCfgBandTop:    l.BandTop,
		bpfobj.TcVarCfgMarkMask:   l.MarkMask,
		bpfobj.TcVarCfgMarkShift:  l.MarkShift,
		bpfobj.TcVarCfgTimeoutNs:  uint64(or(c.timeout, usualTimeout)),
		bpfobj.TcVarCfgMinAgeNs:   uint64(c.minAge),
		bpfobj.TcVarCfgLossHoldNs: uint64(20 * time.Second),
	}
	if !c.bounded {
		values[bpfobj.TcVarCfgIterators] = uint8(1)
	}
	for name, v := range values {
		if err := spec.Variables[name].Set(v); err != nil {
			d.Fatalf("set %s: %v", name, err)
		}
	}
	ip6 := or(c.ip6, int(bpfobj.TcRdrIp6RDR_IP6LABEL))
	if err := spec.Variables[bpfobj.TcVarCfgIp6].Set(uint8(max(ip6, 0))); err != nil {
		d.Fatal(err)
	}
	if c.watch != "" {
		d.watch(spec, c.watch)
	}
	if c.noPull {
		failPulls(spec)
	}
	if spec.Programs[bpfobj.TcProgRadarEgress] != nil && noIngressIfindex() {
		readPriority(d, spec)
	}
	l.SizeMaps(spec)
	spec.Maps[bpfobj.TcMapKeys].MaxEntries = or(c.keys, 1024)
}

// reset gives the maps what the loader would.
func (d *domain) reset() {
	d.Helper()
	d.checkSum()
	if _, err := d.ring.WriteAt(make([]byte, d.layout.Slots*d.layout.SlotBytes), 0); err != nil {
		d.Fatal(err)
	}
	d.empty(bpfobj.TcMapKeys)
	d.empty(bpfobj.TcMapSpelled)
	d.empty(bpfobj.TcMapReplaced)
	d.forgetNotes()
	d.empty(bpfobj.TcMapLocals)
	d.empty(bpfobj.TcMapLocals6)
	for k, v := range local6Table {
		d.put(bpfobj.TcMapLocals6, k, v)
	}
	for no, p := range portTable {
		p.Ifindex, p.NetnsInum = ifindex(no), netns(p.Node)
		d.put(bpfobj.TcMapPorts, uint32(no), p)
		d.put(bpfobj.TcMapDevs, bpfobj.TcRdrDev{NetnsInum: p.NetnsInum, Ifindex: p.Ifindex}, uint32(no))
	}
	// Nodes with odd numbers have few addresses, those with even ones too many.
	for k, v := range localTable {
		if k.Node%2 == 0 {
			d.put(bpfobj.TcMapLocals, k, v)
		}
	}
	d.putNodes(func(node uint32) bool { return node%2 != 0 })
	d.clearCounters()
	d.startAt(uint64(d.layout.Slots))
	d.lease(true)
	for which, name := range program.Jumps {
		d.put(bpfobj.TcMapProgs, uint32(which), d.Programs[name])
	}
}

// forgetNotes empties the notes about windows of slots: they are of turns of the ring that come again.
func (d *domain) forgetNotes() {
	d.Helper()
	for key := range d.Maps[bpfobj.TcMapBusy].MaxEntries() {
		d.put(bpfobj.TcMapBusy, key, uint64(0))
	}
}

// putNodes makes those that are chosen nodes with few addresses.
func (d *domain) putNodes(choose func(node uint32) bool) {
	d.Helper()
	few := make(map[uint32][]netip.Addr)
	for node := uint32(nodeH1); node <= nodeH3; node++ {
		if choose(node) {
			few[node] = nil
		}
	}
	for k := range localTable {
		if choose(k.Node) {
			few[k.Node] = append(few[k.Node], netip.AddrFrom4([4]byte(binary.NativeEndian.AppendUint32(nil, k.Addr))))
		}
	}
	for k := range local6Table {
		if choose(k.Node) {
			few[k.Node] = append(few[k.Node], netip.AddrFrom16(k.Addr))
		}
	}
	for node, addrs := range few {
		v4, v6 := tables.NodeEntries(addrs, d.hashKeys())
		d.put(bpfobj.TcMapNodes, node, v4)
		d.put(bpfobj.TcMapNodes6, node, v6)
	}
}

// fastNodes makes nodes that the fast path is for: all but those that the script's number leaves out.
func (d *domain) fastNodes(number uint64) {
	d.Helper()
	for node := nodeH1; node <= nodeH2; node++ {
		d.put(bpfobj.TcMapNodes, uint32(node), bpfobj.TcRdrNode{})
		d.put(bpfobj.TcMapNodes6, uint32(node), bpfobj.TcRdrNode{})
	}
	d.putNodes(func(node uint32) bool { return node > nodeH2 || number>>node&1 == 0 })
}

// hashKeys are the programs'.
func (d *domain) hashKeys() (keys program.HashKeys) {
	d.Helper()
	if err := d.Variables[bpfobj.TcVarCfgHash].Get(&keys); err != nil {
		d.Fatal(err)
	}
	return keys
}

func (d *domain) clearCounters() {
	d.Helper()
	for c := range bpfobj.TcRdrCounterRDR_C_MAX {
		d.put(bpfobj.TcMapCounters, uint32(c), make([]uint64, ebpf.MustPossibleCPU()))
	}
}

// empty deletes all entries of a hash map.
func (d *domain) empty(name string) {
	d.Helper()
	m := d.Maps[name]
	key := make([]byte, m.KeySize())
	for m.NextKey(nil, &key) == nil {
		if err := m.Delete(key); err != nil {
			d.Fatalf("empty %s: %v", name, err)
		}
	}
}

func (d *domain) put(name string, key, value any) {
	d.Helper()
	if err := d.Maps[name].Put(key, value); err != nil {
		d.Fatalf("put into %s: %v", name, err)
	}
}

// startAt makes the next block begin at pos, and takes what the CPUs hold.
func (d *domain) startAt(pos uint64) {
	d.Helper()
	d.put(bpfobj.TcMapCursor, uint32(0), bpfobj.TcRdrCursor{Next: pos})
	d.put(bpfobj.TcMapAlloc, uint32(0), make([]bpfobj.TcRdrAlloc, ebpf.MustPossibleCPU()))
}

// lease gives or ends the sources' lease.
func (d *domain) lease(on bool) {
	d.Helper()
	c := bpfobj.TcRdrControl{}
	if on {
		c.LeaseNs = ^uint64(0)
	}
	c.Cursor = d.cursor()
	d.put(bpfobj.TcMapControl, uint32(0), c)
}

// cursor is the first position not yet given to any CPU.
func (d *domain) cursor() uint64 {
	d.Helper()
	var c bpfobj.TcRdrCursor
	if err := d.Maps[bpfobj.TcMapCursor].Lookup(uint32(0), &c); err != nil {
		d.Fatal(err)
	}
	return c.Next
}

// onCPU runs f on another CPU.
func (d *domain) onCPU(n int, f func()) {
	d.Helper()
	var old unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		d.Fatal(err)
	}
	setCPU(d, n)
	defer func() {
		if err := unix.SchedSetaffinity(0, &old); err != nil {
			d.Fatal(err)
		}
	}()
	f()
}

// pinCPU keeps the test's thread on the n-th CPU that it may use.
func pinCPU(t testing.TB, n int) {
	t.Helper()
	runtime.LockOSThread()
	var old unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		t.Fatal(err)
	}
	setCPU(t, n)
	t.Cleanup(func() {
		if err := unix.SchedSetaffinity(0, &old); err == nil {
			runtime.UnlockOSThread() // else the thread ends with the test
		}
	})
}

// cpus are those that the process may use.
var cpus = sync.OnceValues(func() (list []int, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &all); err != nil {
		return nil, err
	}
	for cpu := 0; len(list) < all.Count(); cpu++ {
		if all.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list, nil
})

func setCPU(t testing.TB, n int) {
	t.Helper()
	list, err := cpus()
	if err != nil {
		t.Fatal(err)
	}
	if n >= len(list) {
		t.Fatalf("this test needs %d CPUs, there are %d", n+1, len(list))
	}
	var one unix.CPUSet
	one.Set(list[n])
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
}
