// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// patience is how long something that must happen may take.
const patience = nstest.Patience

// lab is a virtual network, and a domain of its own that may be attached to it.
type lab struct {
	*nstest.Net
	t      *testing.T
	domain string
	opts   program.Options
	// unknownPorts: the programs need not know all ports of the description yet.
	unknownPorts bool
}

// newLab makes namespaces; the domain is detached when the test ends.
func newLab(t *testing.T, hook string, names ...string) *lab {
	t.Helper()
	sideBySide(t)
	l := &lab{Net: nstest.New(t, names...), t: t, domain: nstest.Unique(), opts: program.DefaultOptions()}
	l.opts.Slots, l.opts.Keys, l.opts.Hook, l.opts.Timeout = domain.MinSlots, domain.MinKeys, hook, 500*time.Millisecond
	nstest.Cleanup(t, func() {
		_, err := Detach(context.Background(), DetachRequest{Domain: l.domain, NoDrain: true})
		if err != nil && !errors.Is(err, domain.ErrNotAttached) {
			t.Errorf("detach at the end of the test: %v", err)
		}
	})
	return l
}

// TestMain gives all tests one state directory: each has a domain of its own.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rdrdatapath")
	if err == nil {
		err = os.Setenv("RADAR_STATE_DIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// beside are the tests of which it is settled whether they run beside others.
var beside sync.Map

// sideBySide lets a test that has a network run beside others, since it mostly waits. It may be called for each network.
func sideBySide(t *testing.T) {
	if _, asked := beside.LoadOrStore(t, true); !asked {
		t.Parallel()
	}
}

// runAlone keeps a test from running beside others: it changes a variable that they read, or takes all that the machine has.
func runAlone(t *testing.T) { beside.Store(t, true) }

// newChain makes a - r - b, r routing, all with addresses.
func newChain(t *testing.T, hook string) *lab {
	t.Helper()
	l := newLab(t, hook, "a", "r", "b")
	l.Chain()
	l.Run("r", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	return l
}

// ping fails the test if packets from a do not reach b and come back.
func (l *lab) ping() {
	l.t.Helper()
	l.Run("a", "ping", "-q", "-c", "3", "-i", "0.01", "-W", "60", "10.0.2.1")
}

func (l *lab) specs(names ...string) []topo.NodeSpec {
	l.t.Helper()
	args := make([]string, len(names))
	for i, name := range names {
		args[i] = l.Spec(name)
	}
	specs, err := topo.ParseSpecs(args)
	if err != nil {
		l.t.Fatal(err)
	}
	return specs
}

func (l *lab) request(names ...string) AttachRequest {
	l.t.Helper()
	return AttachRequest{Domain: l.domain, Nodes: l.specs(names...), Options: &l.opts}
}

func (l *lab) attach(names ...string) *AttachResult {
	l.t.Helper()
	r, err := Attach(l.t.Context(), l.request(names...))
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func (l *lab) detach(names ...string) *DetachResult {
	l.t.Helper()
	r, err := Detach(l.t.Context(), DetachRequest{Domain: l.domain, Nodes: names})
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// detachAll detaches all nodes, after which nothing of the domain may be left.
func (l *lab) detachAll() {
	l.t.Helper()
	objects := l.objects()
	l.detach()
	l.wantNothing(objects)
}

func (l *lab) open() *Handle {
	l.t.Helper()
	h, err := Open(l.domain)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { h.Close() })
	return h
}

// refresh refreshes and returns the changes.
func (l *lab) refresh() *Changes {
	l.t.Helper()
	h := l.open()
	defer h.Close()
	c, err := h.Refresh(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// port finds an attached port.
func (l *lab) port(d *domain.Domain, node, name string) *domain.Port {
	l.t.Helper()
	for i := range d.Ports {
		if p := &d.Ports[i]; !p.Removed && merge.PortName(d, p) == node+"/"+name {
			return p
		}
	}
	l.t.Fatalf("no port %s/%s in %+v", node, name, d.Ports)
	return nil
}

const (
	internalPort = "internal|out"
	edgePort     = "in|out"
	restoring    = "none"
)

// flags shows what the programs are told about each port of the description, as
// "node/port flags", sorted.
func (l *lab) flags() []string {
	l.t.Helper()
	h := l.open()
	defer h.Close()
	names := []struct {
		flag bpfobj.TcRdrPortFlag
		name string
	}{
		{bpfobj.TcRdrPortFlagRDR_PF_INTERNAL, "internal"},
		{bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN, "in"},
		{bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT, "out"},
		{bpfobj.TcRdrPortFlagRDR_PF_L3, "l3"},
		{bpfobj.TcRdrPortFlagRDR_PF_BRIDGE_PORT, "bridge-port"},
		{bpfobj.TcRdrPortFlagRDR_PF_BRIDGE, "bridge"},
		{bpfobj.TcRdrPortFlagRDR_PF_HEADER, "header"},
		{bpfobj.TcRdrPortFlagRDR_PF_TRUE, "true"},
		{bpfobj.TcRdrPortFlagRDR_PF_QUEUE, "queue"},
		{bpfobj.TcRdrPortFlagRDR_PF_TUNNEL, "tunnel"},
		{bpfobj.TcRdrPortFlagRDR_PF_LATE, "late"},
		{bpfobj.TcRdrPortFlagRDR_PF_APART, "apart"},
	}
	var lines []string
	for i := range h.Domain.Ports {
		p := &h.Domain.Ports[i]
		if p.Removed {
			continue
		}
		var entry bpfobj.TcRdrPort
		if err := h.maps[bpfobj.TcMapPorts].Lookup(uint32(p.ID), &entry); err != nil {
			l.t.Fatal(err)
		}
		if l.unknownPorts && entry == (bpfobj.TcRdrPort{}) {
			lines = append(lines, merge.PortName(h.Domain, p)+" "+restoring)
			continue
		}
		if node := h.Domain.NodeByID(p.Node); entry.Node != p.Node || int(entry.Ifindex) != p.Ifindex || entry.NetnsInum != node.Inum {
			l.t.Errorf("port %s: the programs are told %+v", merge.PortName(h.Domain, p), entry)
		}
		var set []string
		for _, n := range names {
			if f := bpfobj.TcRdrPortFlag(entry.Flags); f&n.flag != 0 && (n.name != "header" || f&bpfobj.TcRdrPortFlagRDR_PF_APART == 0) {
				set = append(set, n.name)
			}
		}
		if set == nil {
			set = []string{restoring}
		}
		lines = append(lines, merge.PortName(h.Domain, p)+" "+strings.Join(set, "|"))
	}
	slices.Sort(lines)
	return lines
}

func (l *lab) wantFlags(want ...string) {
	l.t.Helper()
	if got := l.flags(); !slices.Equal(got, want) {
		l.t.Errorf("ports\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
	}
}

// tc shows all qdiscs and filters of the namespaces, except what the kernel makes
// by itself.
func (l *lab) tc(names ...string) string {
	l.t.Helper()
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "%s:\n%s", name, l.Run(name, "tc", "qdisc", "show"))
		for _, line := range strings.Split(l.Run(name, "ip", "-o", "link", "show"), "\n") {
			fields := strings.Fields(line)
			if len(fields) < 2 || !strings.Contains("123456789", line[:1]) {
				continue // ip warns when a peer's namespace goes meanwhile
			}
			dev, _, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), "@")
			for _, hook := range []string{"ingress", "egress"} {
				out, _ := l.Try(name, "tc", "filter", "show", "dev", dev, hook)
				all.WriteString(out)
			}
		}
	}
	return all.String()
}

// objects are the numbers of everything in the kernel that is the domain's.
type kernelObjects struct {
	maps  []ebpf.MapID
	progs []ebpf.ProgramID
	links []link.ID
	// portLinks is how many of the links are on interfaces.
	portLinks int
}

// objects finds what the pins lead to. Of clsact filters it knows the shared
// programs only.
func (l *lab) objects() kernelObjects {
	l.t.Helper()
	o := kernelObjects{maps: domain.Kind.Maps(l.domain)}
	entries, err := os.ReadDir(domain.PinDir(l.domain))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range entries {
		if !system.IsLink(e.Name()) {
			continue
		}
		x, err := link.LoadPinnedLink(filepath.Join(domain.PinDir(l.domain), e.Name()), nil)
		if err != nil {
			l.t.Fatal(err)
		}
		info, err := x.Info()
		x.Close()
		if err != nil {
			l.t.Fatal(err)
		}
		if info.TCX() != nil {
			o.portLinks++
		}
		o.links, o.progs = append(o.links, info.ID), append(o.progs, info.Program)
	}
	h := l.open()
	defer h.Close()
	for i := range uint32(bpfobj.TcRdrProgRDR_PROG_MAX) {
		var id ebpf.ProgramID
		err := h.maps[bpfobj.TcMapProgs].Lookup(i, &id)
		if errors.Is(err, ebpf.ErrKeyNotExist) && slices.Contains(program.IPv6Jumps, bpfobj.TcRdrProg(i)) {
			continue // not loaded: no node has IPv6
		}
		if err != nil {
			l.t.Fatal(err)
		}
		o.progs = append(o.progs, id)
	}
	return o
}

// left returns those that still exist. It opens none: see hook.AwaitFreed.
func (o kernelObjects) left() []string {
	var left []string
	for _, id := range o.maps {
		if next, err := ebpf.MapGetNextID(id - 1); err == nil && next == id {
			left = append(left, fmt.Sprintf("map %d", id))
		}
	}
	for _, id := range o.progs {
		if next, err := ebpf.ProgramGetNextID(id - 1); err == nil && next == id {
			left = append(left, fmt.Sprintf("program %d", id))
		}
	}
	for _, id := range o.links {
		if x, err := link.NewFromID(id); err == nil {
			x.Close()
			left = append(left, fmt.Sprintf("link %d", id))
		}
	}
	return left
}

// wantNothing fails the test if anything of the domain is left in the kernel or in
// files.
func (l *lab) wantNothing(o kernelObjects) {
	l.t.Helper()
	if len(o.maps) < len(handleMaps) {
		l.t.Fatalf("the test knows of %d maps only", len(o.maps))
	}
	var left []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if left = o.left(); left == nil {
			break
		}
	}
	if left != nil {
		l.t.Errorf("left in the kernel: %v", left)
	}
	l.wantNoFiles()
}

func (l *lab) wantNoFiles() {
	l.t.Helper()
	for _, path := range []string{domain.PinDir(l.domain), domain.Dir(l.domain)} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			l.t.Errorf("%s is still there (%v)", path, err)
		}
	}
}
