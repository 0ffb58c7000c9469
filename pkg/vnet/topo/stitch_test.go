// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// sewn makes a and b, whose other ends pa and pb lie in sw, not joined yet.
func sewn(t *testing.T) *nstest.Net {
	t.Helper()
	n := nstest.New(t, "sw", "a", "b", "u")
	for _, name := range []string{"a", "b", "u"} {
		n.Veth(name, "e0", "sw", "p"+name)
	}
	return n
}

// tc runs tc in sw, with the words of each command.
func tc(n *nstest.Net, commands ...string) {
	for _, c := range commands {
		n.Run("sw", append([]string{"tc"}, strings.Fields(c)...)...)
	}
}

// redirect is what joins one direction, as containerlab does it.
func redirect(from, to string) []string {
	return []string{
		"qdisc add dev " + from + " handle ffff: ingress",
		"filter add dev " + from + " parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev " + to,
	}
}

// byOther is the same at clsact, by another classifier.
func byOther(classifier string) func(from, to string) []string {
	return func(from, to string) []string {
		return []string{
			"qdisc add dev " + from + " clsact",
			"filter add dev " + from + " ingress protocol all " + classifier + " action mirred egress redirect dev " + to,
		}
	}
}

func TestStitched(t *testing.T) {
	for name, sew := range map[string]func(from, to string) []string{
		"u32": redirect, "u32 at clsact": byOther("u32 match u8 0 0"), "matchall": byOther("matchall"), "flower": byOther("flower"),
	} {
		t.Run(name, func(t *testing.T) {
			n := sewn(t)
			if name == "matchall" || name == "flower" {
				wantClassifier(t, n, name)
			}
			tc(n, sew("pa", "pb")...)
			tc(n, sew("pb", "pa")...)
			topology := discover(t, n, nil, "a", "b", "u")
			wantLinks(t, n, topology, "a/e0 internal", "b/e0 internal", "u/e0 edge")
			for i, other := range []int{1, 0} {
				p := &topology.Nodes[i].Ports[0]
				if !p.Stitched || p.Peer == nil || *p.Peer != (PortRef{other, 0}) {
					t.Errorf("port %+v", p)
				}
			}
			if len(topology.Notes) > 0 {
				t.Errorf("notes %q", topology.Notes)
			}
			if len(topology.Near) != 1 || topology.Near[0].Inum != specs(t, n, "sw")[0].Inum {
				t.Errorf("near %+v: nobody would notice that a filter goes", topology.Near)
			}
			// One of them alone has its other end outside.
			if p := discover(t, n, nil, "a").Nodes[0].Ports[0]; p.Role != domain.Edge || p.Stitched {
				t.Errorf("port %+v", p)
			}
			// A namespace that is attached is a node in between.
			for _, node := range discover(t, n, nil, "a", "b", "sw").Nodes {
				for _, p := range node.Ports {
					if p.Stitched {
						t.Errorf("port %+v", p)
					}
				}
			}
		})
	}
}

// wantClassifier ends the test if this kernel has no such classifier.
func wantClassifier(t *testing.T, n *nstest.Net, name string) {
	t.Helper()
	tc(n, "qdisc add dev pu clsact")
	out, err := n.Try("sw", "tc", "filter", "add", "dev", "pu", "ingress", name)
	if err != nil && strings.Contains(out, "classifier not found") {
		need.Lack(t, need.Kernel, "this kernel has no classifier "+name)
	}
}

// What differs from a link that is all of tc's doing stays an edge, and is told.
func TestStitchedNot(t *testing.T) {
	both := slices.Concat(redirect("pa", "pb"), redirect("pb", "pa"))
	for _, c := range []struct {
		name string
		tc   []string
		ip   []string
		note string // of a part
	}{
		{name: "one direction", tc: redirect("pa", "pb"), note: "pb does not redirect back"},
		{name: "somewhere else", tc: slices.Concat(redirect("pa", "pb"), redirect("pb", "pu")), note: "pb does not redirect back to it"},
		{name: "to itself", tc: redirect("pa", "pa"), note: "redirects to itself"},
		{name: "one protocol", tc: []string{
			"qdisc add dev pa clsact", "filter add dev pa ingress protocol ip u32 match u32 0 0 action mirred egress redirect dev pb",
		}, note: "does not take all packets"},
		{name: "some packets", tc: []string{
			"qdisc add dev pa clsact", "filter add dev pa ingress protocol all u32 match u8 64 0xff at 8 action mirred egress redirect dev pb",
		}, note: "does not take all packets"},
		{name: "another filter", tc: slices.Concat(both, []string{"filter add dev pa ingress prio 1 u32 match u8 64 0xff at 8 flowid 1:1"}), note: "other filters"},
		{name: "in another chain", tc: slices.Concat(both, []string{"filter add dev pa ingress chain 7 u32 match u32 0 0 flowid 1:1"}), note: "other filters"},
		{name: "another action", tc: slices.Concat([]string{
			"qdisc add dev pa clsact", "filter add dev pa ingress protocol all u32 match u32 0 0 action mirred egress mirror dev pu pipe action mirred egress redirect dev pb",
		}, redirect("pb", "pa")), note: "more than redirect"},
		{name: "a filter at egress", tc: slices.Concat(redirect("pa", "pb"), byOther("u32 match u32 0 0")("pb", "pa"),
			[]string{"filter add dev pb egress prio 7 u32 match u32 0 0 flowid 1:1"}), note: "filters at its egress"},
		{name: "an address", tc: both, ip: []string{"addr add 10.0.0.9/24 dev pb"}, note: "has the address 10.0.0.9"},
		{name: "a device above", tc: both, ip: []string{"link add m0 link pa type macvlan"}, note: "m0 stands on pa"},
		{name: "a bridge", tc: both, ip: []string{"link add br0 type bridge", "link set pa master br0"}, note: "is a member"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := sewn(t)
			tc(n, c.tc...)
			for _, words := range c.ip {
				n.Run("sw", append([]string{"ip"}, strings.Fields(words)...)...)
			}
			topology := discover(t, n, nil, "a", "b")
			for _, node := range topology.Nodes {
				if node.Auto {
					continue
				}
				for _, p := range node.Ports {
					if p.Role != domain.Edge || p.Stitched || p.Link != "" {
						t.Errorf("%s: port %+v", node.Name, p)
					}
				}
			}
			if notes := strings.Join(topology.Notes, "\n"); !strings.Contains(notes, c.note) || !strings.Contains(notes, "it is an edge") {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
		})
	}
}

// A mirrored copy is no redirect, and nobody need be told of filters that redirect nothing.
func TestStitchedMirror(t *testing.T) {
	n := sewn(t)
	tc(n, "qdisc add dev pa clsact", "filter add dev pa ingress protocol all u32 match u32 0 0 action mirred egress mirror dev pb",
		"qdisc add dev pb clsact", "filter add dev pb ingress u32 match u32 0 0 flowid 1:1")
	topology := discover(t, n, nil, "a", "b")
	wantLinks(t, n, topology, "a/e0 edge", "b/e0 edge")
	if len(topology.Notes) > 0 {
		t.Errorf("notes %q", topology.Notes)
	}
}

// An nftables chain at one of the two, and an XDP program, see packets, too.
func TestStitchedOthersLook(t *testing.T) {
	n := sewn(t)
	tc(n, slices.Concat(redirect("pa", "pb"), redirect("pb", "pa"))...)
	if out, err := n.Try("sw", "nft", "add table netdev t; add chain netdev t c { type filter hook egress device pb priority 0; }"); err != nil {
		t.Logf("this kernel has no hook at egress: %s", out)
		n.Run("sw", "nft", "add table netdev t; add chain netdev t c { type filter hook ingress device pb priority 0; }")
	}
	topology := discover(t, n, nil, "a", "b")
	wantLinks(t, n, topology, "a/e0 edge", "b/e0 edge")
	if notes := strings.Join(topology.Notes, "\n"); !strings.Contains(notes, "nftables has a chain at pb") {
		t.Errorf("notes %q", notes)
	}
	n.Run("sw", "nft", "flush ruleset")
	wantLinks(t, n, discover(t, n, nil, "a", "b"), "a/e0 internal", "b/e0 internal")
	attachXDP(t, n, "sw", "pb")
	topology = discover(t, n, nil, "a", "b")
	wantLinks(t, n, topology, "a/e0 edge", "b/e0 edge")
	if notes := strings.Join(topology.Notes, "\n"); !strings.Contains(notes, "pb has an XDP program") {
		t.Errorf("notes %q", notes)
	}
}

// A TCX program, which is none of tc's filters.
func TestStitchedTCX(t *testing.T) {
	n := sewn(t)
	tc(n, slices.Concat(redirect("pa", "pb"), redirect("pb", "pa"))...)
	index := n.Index("sw", "pa")
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "MIT", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	err = specs(t, n, "sw")[0].Do(func() error {
		l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: prog, Attach: ebpf.AttachTCXEgress})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if errors.Is(err, ebpf.ErrNotSupported) {
		need.Lack(t, need.Kernel, "this kernel has no TCX")
	}
	if err != nil {
		t.Fatal(err)
	}
	topology := discover(t, n, nil, "a", "b")
	wantLinks(t, n, topology, "a/e0 edge", "b/e0 edge")
	if notes := strings.Join(topology.Notes, "\n"); !strings.Contains(notes, "pa has TCX programs") {
		t.Errorf("notes %q", notes)
	}
}

// nested is an attribute with others in it.
func nested(kind int, inside ...*nl.RtAttr) *nl.RtAttr {
	a := nl.NewRtAttr(kind, nil)
	for _, in := range inside {
		a.AddChild(in)
	}
	return a
}

// What this machine's kernel may be built without: filters as the kernel describes them.
func TestRedirectOf(t *testing.T) {
	const to = 7
	mirred := func(eaction netlink.MirredAct, act netlink.TcAct) *nl.RtAttr {
		var m []byte // struct tc_mirred
		for _, v := range []int{1, 0, int(act), 1, 1, int(eaction), to} {
			m = binary.NativeEndian.AppendUint32(m, uint32(v))
		}
		return nested(1, nl.NewRtAttr(nl.TCA_ACT_KIND, nl.ZeroTerminated("mirred")),
			nested(nl.TCA_ACT_OPTIONS, nl.NewRtAttr(nl.TCA_MIRRED_PARMS, m)))
	}
	redirect := mirred(netlink.TCA_EGRESS_REDIR, netlink.TC_ACT_STOLEN)
	drop := nested(2, nl.NewRtAttr(nl.TCA_ACT_KIND, nl.ZeroTerminated("gact")))
	flags := func(kind int, v uint32) *nl.RtAttr { return nl.NewRtAttr(kind, nl.Uint32Attr(v)) }
	for _, c := range []struct {
		name    string
		kind    string
		options []*nl.RtAttr
		to      int
		why     string
	}{
		{"matchall", "matchall", []*nl.RtAttr{nested(nl.TCA_MATCHALL_ACT, redirect), flags(nl.TCA_MATCHALL_FLAGS, 1<<3)}, to, ""},
		{"in hardware only", "matchall", []*nl.RtAttr{nested(nl.TCA_MATCHALL_ACT, redirect), flags(nl.TCA_MATCHALL_FLAGS, clsSkipSoftware)}, to, "all packets"},
		{"two actions", "matchall", []*nl.RtAttr{nested(nl.TCA_MATCHALL_ACT, redirect, drop)}, to, "more than redirect"},
		{"to the other one's ingress", "matchall", []*nl.RtAttr{nested(nl.TCA_MATCHALL_ACT, mirred(netlink.TCA_INGRESS_REDIR, netlink.TC_ACT_STOLEN))}, 0, ""},
		{"and on with the packet", "matchall", []*nl.RtAttr{nested(nl.TCA_MATCHALL_ACT, mirred(netlink.TCA_EGRESS_REDIR, netlink.TC_ACT_PIPE))}, 0, ""},
		{"flower", "flower", []*nl.RtAttr{flags(nl.TCA_FLOWER_FLAGS, 1<<3), nested(nl.TCA_FLOWER_ACT, redirect)}, to, ""},
		{"flower with a key", "flower", []*nl.RtAttr{nl.NewRtAttr(nl.TCA_FLOWER_KEY_ETH_TYPE, []byte{8, 0}), nested(nl.TCA_FLOWER_ACT, redirect)}, to, "all packets"},
		{"another classifier", "fw", []*nl.RtAttr{nested(nl.TCA_MATCHALL_ACT, redirect)}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			msg := nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: 3, Handle: 1, Info: uint32(nl.Swap16(unix.ETH_P_ALL)) | 1<<16}
			m := slices.Concat(msg.Serialize(), nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(c.kind)).Serialize(), nested(nl.TCA_OPTIONS, c.options...).Serialize())
			f, ok := readFilter(m)
			if !ok {
				t.Fatal("no filter")
			}
			if to, why := redirectOf([]filter{f}); to != c.to || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("redirects to %d, %q", to, why)
			}
		})
	}
}
