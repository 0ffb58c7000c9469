// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// What programs return. The kernel counts for the tests: what is dropped does not arrive.
const (
	tcNext, tcDrop   = -1, 2
	xdpDrop, xdpPass = 1, 2
	nfAccept, nfDrop = 1, 0
)

// newProgram loads a program that returns always the same.
func newProgram(t *testing.T, kind ebpf.ProgramType, at ebpf.AttachType, verdict int32) *ebpf.Program {
	t.Helper()
	p, err := loadProgram(kind, at, "", verdict)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func loadProgram(kind ebpf.ProgramType, at ebpf.AttachType, to string, verdict int32) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "rdr_test", Type: kind, AttachType: at, AttachTo: to, License: license,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
	})
}

func newTC(t *testing.T, verdict int32) *ebpf.Program {
	t.Helper()
	return newProgram(t, ebpf.SchedCLS, ebpf.AttachNone, verdict)
}

func programID(t *testing.T, p *ebpf.Program) ebpf.ProgramID {
	t.Helper()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return id
}

// pair is two namespaces, a and b, whose interfaces e0 are one link.
type pair struct {
	*nstest.Net
	t *testing.T
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{nstest.New(t, "a", "b"), t}
	p.Veth("a", "e0", "b", "e0")
	p.Address("a", "e0", "10.0.1.1/24")
	p.Address("b", "e0", "10.0.1.2/24")
	return p
}

// in runs f in a namespace.
func (p *pair) in(name string, f func() error) {
	p.t.Helper()
	ns, _, err := host.OpenNetns(p.Path(name))
	if err == nil {
		err = host.InNetns(ns, f)
		ns.Close()
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// reaches wants packets of a to reach b, and answers to come back.
func (p *pair) reaches(when string) {
	p.t.Helper()
	if out, err := p.Try("a", "ping", "-q", "-c", "1", "-W", "60", "10.0.1.2"); err != nil {
		p.t.Errorf("%s: b does not answer a: %v\n%s", when, err, out)
	}
}

// isCut wants that nothing comes back.
func (p *pair) isCut(when string) {
	p.t.Helper()
	if out, err := p.Try("a", "ping", "-q", "-c", "1", "-W", "1", "10.0.1.2"); err == nil {
		p.t.Errorf("%s: b answers a\n%s", when, out)
	}
}

// newPins makes a directory for pins.
func newPins(t *testing.T) string {
	t.Helper()
	need.AsRoot(t)
	if err := Mount(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(BPFFS, nstest.Unique())
	nstest.Cleanup(t, func() {
		pins, _ := Pins(dir, "")
		for _, pin := range pins {
			_ = Detach(pin)
		}
		_ = RemoveDir(dir)
	})
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ways are those that the kernel has.
func ways(t *testing.T) []string {
	t.Helper()
	if Probe().TCX {
		return []string{ByTCX, ByClsact}
	}
	return []string{ByClsact}
}

// TestProbe: the kernel has what its release says.
func TestProbe(t *testing.T) {
	need.AsRoot(t)
	s, release := Probe(), kernel.Release()
	if s.TCX == kernel.Older(release, 6, 6) || !s.Clsact {
		t.Errorf("Linux %s: %+v", release, s)
	}
	if s.Netfilter && kernel.Older(release, 6, 4) {
		t.Errorf("Linux %s: %+v", release, s)
	}
	if Traces("no_such_tracepoint") {
		t.Error("a tracepoint that is not there can be traced")
	}
}

// TestTC: a program stands at the hook that it was put at, until it is taken off, by whichever
// way.
func TestTC(t *testing.T) {
	dir := newPins(t)
	for _, by := range ways(t) {
		for _, d := range []Direction{Ingress, Egress} {
			p := newPair(t)
			at := TC{By: by, Ifindex: p.Index("b", "e0"), Direction: d, Pin: filepath.Join(dir, by+d.String()), Name: "test"}
			what, prog := fmt.Sprintf("%s, %v", by, d), newTC(t, tcDrop)
			p.reaches(what + ", before")
			p.in("b", func() error {
				if _, err := EnsureClsact(at.Ifindex); err != nil {
					return err
				}
				if at.Stands() {
					t.Errorf("%s: it stands before it is there", what)
				}
				return at.Attach(prog)
			})
			p.isCut(what)
			p.in("b", func() error {
				other := at
				other.Ifindex, other.Name = 1, "other"
				if !at.Stands() || other.Stands() {
					t.Errorf("%s: at its interface %v, at another %v", what, at.Stands(), other.Stands())
				}
				return errors.Join(at.Detach(), at.Detach()) // the second finds nothing
			})
			p.reaches(what + ", taken off")
			p.in("b", func() error {
				if at.Stands() {
					t.Errorf("%s: it stands although it was taken off", what)
				}
				return nil
			})
		}
	}
}

// TestDetach: a program is off when Detach returns, whoever has its link open.
func TestDetach(t *testing.T) {
	dir := newPins(t)
	p, prog, pin := newPair(t), newProgram(t, ebpf.XDP, ebpf.AttachXDP, xdpDrop), filepath.Join(dir, "xdp")
	index := p.Index("b", "e0")
	p.in("b", func() error { return AttachPinned(prog, XDP{Ifindex: index, Generic: true}, pin) })
	open, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	p.isCut("attached")
	if err := Detach(pin); err != nil {
		t.Fatal(err)
	}
	p.reaches("detached")
}

// TestPins: maps are pinned beside links. They are told apart, and freed with their pins.
func TestPins(t *testing.T) {
	dir := newPins(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "rdr_test", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	pin := filepath.Join(dir, "map")
	err = errors.Join(m.Pin(pin), m.Close(), newTC(t, tcNext).Pin(filepath.Join(dir, "link-not")))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Pins(dir, "")
	if err != nil || !slices.Equal(all, []string{filepath.Join(dir, "link-not"), pin}) {
		t.Errorf("pins %v, %v", all, err)
	}
	if some, err := Pins(dir, "link-"); err != nil || !slices.Equal(some, all[:1]) {
		t.Errorf("pins of links %v, %v", some, err)
	}
	if _, err := Pins(dir+"/none", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pins of no directory: %v", err)
	}
	ids := PinnedMaps(all)
	if !slices.Equal(ids, []ebpf.MapID{id}) {
		t.Errorf("maps %v, want %d", ids, id)
	}
	if err := RemoveDir(dir); err == nil {
		t.Error("removed a directory with pins")
	}
	if _, err := Look(pin); err == nil {
		t.Error("a map is a link")
	}
	for _, pin := range all {
		if err := Detach(pin); err != nil {
			t.Error(err)
		}
	}
	AwaitFreed(ids)
	if err := RemoveDir(dir); err != nil {
		t.Error(err)
	}
	nstest.WaitFor(t, "the kernel to free the map", func() bool {
		next, err := ebpf.MapGetNextID(id - 1)
		return err != nil || next != id
	})
}

// TestReplace: another program takes the place of ours. There is one at any time.
func TestReplace(t *testing.T) {
	dir := newPins(t)
	for _, by := range ways(t) {
		p := newPair(t)
		was := TC{By: by, Ifindex: p.Index("b", "e0"), Pin: filepath.Join(dir, by+"-1"), Name: "test"}
		now := was
		now.Pin = filepath.Join(dir, by+"-2")
		next, drop := newTC(t, tcNext), newTC(t, tcDrop)
		p.in("b", func() error {
			if _, err := EnsureClsact(was.Ifindex); err != nil {
				return err
			}
			return errors.Join(was.Attach(next), now.Replace(drop))
		})
		p.isCut(by)
		if out := p.Run("b", "tc", "filter", "show", "dev", "e0", "ingress"); by == ByClsact && strings.Count(out, "test direct-action") != 1 {
			t.Errorf("filters:\n%s", out)
		}
		p.in("b", now.Detach)
		p.reaches(by + ", taken off")
	}
}

// TestBusy: what is in the place is named, and stays.
func TestBusy(t *testing.T) {
	p := newPair(t)
	index, next, drop := p.Index("b", "e0"), newTC(t, tcNext), newTC(t, tcDrop)
	xdp := newProgram(t, ebpf.XDP, ebpf.AttachXDP, xdpPass)
	busy := func(what string, err error, by string) {
		t.Helper()
		failed, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, ErrBusy) || !strings.Contains(failed.By, by) || !strings.Contains(err.Error(), cmp.Or(by, what)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.in("b", func() error {
		if created, err := EnsureClsact(index); err != nil || !created {
			return fmt.Errorf("created %v, %w", created, err)
		}
		if created, err := EnsureClsact(index); err != nil || created {
			return fmt.Errorf("created %v, %w", created, err)
		}
		first := Filter{Ifindex: index, Name: "first"}
		if err := first.Add(next); err != nil {
			return err
		}
		second := Filter{Ifindex: index, Name: "second"}
		busy("filter", second.Add(drop), `bpf "first"`)
		if err := RemoveClsact(index); err != nil || !first.Stands() {
			t.Errorf("removed a qdisc that is in use: %v", err)
		}
		if err := second.Remove(); err != nil || second.Stands() || !first.Stands() {
			t.Errorf("removed a filter of another name: %v", err)
		}
		if err := errors.Join(first.Remove(), RemoveClsact(index)); err != nil {
			return err
		}
		lacks, err := LacksClsact(index)
		if !lacks {
			t.Error("the qdisc stays although nothing hangs there")
		}
		return err
	})
	p.Run("b", "tc", "qdisc", "add", "dev", "e0", "ingress")
	p.in("b", func() error {
		_, err := EnsureClsact(index)
		busy("clsact", err, "ingress qdisc")
		lacks, err := LacksClsact(index)
		if lacks {
			t.Error("a qdisc could be made beside another one")
		}
		return err
	})
	p.in("b", func() error {
		l, err := Attach(xdp, XDP{Ifindex: index, Generic: true})
		if err != nil {
			return err
		}
		defer l.Close()
		_, err = Attach(xdp, XDP{Ifindex: index, Generic: true})
		busy("XDP", err, "")
		return nil
	})
	p.reaches("after all")
}

// TestGone: with an interface its programs go. To take them off is no error.
func TestGone(t *testing.T) {
	dir := newPins(t)
	for _, by := range ways(t) {
		p := newPair(t)
		at := TC{By: by, Ifindex: p.Index("b", "e0"), Pin: filepath.Join(dir, by), Name: "test"}
		next := newTC(t, tcNext)
		p.in("b", func() error {
			_, err := EnsureClsact(at.Ifindex)
			return errors.Join(err, at.Attach(next))
		})
		p.Run("b", "ip", "link", "delete", "e0")
		if s, err := Look(at.Pin); by == ByTCX && (err != nil || s.Ifindex != 0) {
			t.Errorf("the link of an interface that is gone: %+v, %v", s, err)
		}
		p.in("b", func() error {
			if at.Stands() {
				t.Errorf("%s: it stands at an interface that is gone", by)
			}
			return errors.Join(at.Detach(), RemoveClsact(at.Ifindex))
		})
	}
	if _, err := Look(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no pin: %v", err)
	}
}

// TestNetfilter: a program at LOCAL_IN decides what is delivered, for as long as the link is open.
func TestNetfilter(t *testing.T) {
	need.AsRoot(t)
	if !Probe().Netfilter {
		if !kernel.Older(kernel.Release(), 6, 4) {
			t.Fatalf("Linux %s should have netfilter programs", kernel.Release())
		}
		return
	}
	p := newPair(t)
	at := Netfilter{Hook: LocalIn, Priority: First}
	drop := newProgram(t, ebpf.Netfilter, ebpf.AttachNetfilter, nfDrop)
	accept := newProgram(t, ebpf.Netfilter, ebpf.AttachNetfilter, nfAccept)
	p.in("b", func() error {
		l, err := Attach(drop, at)
		if err != nil {
			return err
		}
		p.isCut("a program that drops")
		if _, err := Attach(drop, at); !errors.Is(err, ErrBusy) {
			t.Errorf("a second one of the same priority: %v", err)
		}
		six, err := Attach(drop, Netfilter{IPv6: true, Hook: LocalIn, Priority: First})
		if err == nil {
			err = six.Close()
		}
		return errors.Join(err, l.Close())
	})
	p.reaches("its link was closed")
	p.in("b", func() error {
		l, err := Attach(accept, at)
		if err != nil {
			return err
		}
		p.reaches("a program that accepts")
		return l.Close()
	})
}

// TestTracing: a tracing program is pinned, seen by its pin, and taken off.
func TestTracing(t *testing.T) {
	dir := newPins(t)
	if !Traces("kfree_skb") {
		t.Fatalf("Linux %s traces nothing: the tests of this package need BTF", kernel.Release())
	}
	prog, err := loadProgram(ebpf.Tracing, ebpf.AttachTraceRawTp, "kfree_skb", 0)
	if err != nil {
		t.Fatal(err)
	}
	id, pin := programID(t, prog), filepath.Join(dir, "link-kfree_skb")
	err = AttachPinned(prog, Tracing("tp_btf/kfree_skb"), pin)
	prog.Close()
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Look(pin); err != nil || s != (Standing{Program: id, Kind: link.RawTracepointType}) {
		t.Errorf("%+v, %v; want program %d", s, err, id)
	}
	if err := Detach(pin); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "the kernel to free the program", func() bool {
		next, err := ebpf.ProgramGetNextID(id - 1)
		return err != nil || next != id
	})
}

// TestErrors: an error has the kind and the cause that it was made of, and says the step.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ cause, kind error }{
		{unix.EPERM, ErrPermission}, {unix.EACCES, ErrPermission}, {unix.EBUSY, ErrBusy}, {unix.EEXIST, ErrBusy},
		{ebpf.ErrNotSupported, ErrUnsupported}, {unix.EAFNOSUPPORT, ErrUnsupported}, {unix.EINVAL, nil},
	} {
		err := attachError(TCX{Ifindex: 7, Direction: Egress}, fmt.Errorf("create link: %w", c.cause))
		for _, kind := range []error{ErrPermission, ErrBusy, ErrUnsupported} {
			if errors.Is(err, kind) != (kind == c.kind) {
				t.Errorf("%v is %v: %v", c.cause, kind, errors.Is(err, kind))
			}
		}
		if want := "attach TCX egress of interface 7: create link: " + c.cause.Error(); err.Error() != want || !errors.Is(err, c.cause) {
			t.Errorf("%q, want %q", err, want)
		}
	}
	if err := tcError("add filter", "test", unix.ENOENT); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a kernel without such filters: %v", err)
	}
	if tcError("add filter", "test", nil) != nil {
		t.Error("no error is one")
	}
}
