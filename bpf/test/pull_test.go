// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// failPulls makes every bpf_skb_pull_data() an error, as if there was no memory.
func failPulls(spec *ebpf.CollectionSpec) {
	for _, prog := range spec.Programs {
		for i := range prog.Instructions {
			ins := &prog.Instructions[i]
			if ins.IsBuiltinCall() && ins.Constant == int64(asm.FnSkbPullData) {
				failed := asm.Mov.Imm(asm.R0, -int32(unix.ENOMEM))
				ins.OpCode, ins.Dst, ins.Src, ins.Constant = failed.OpCode, failed.Dst, failed.Src, failed.Constant
			}
		}
	}
}

// TestNoPull: a packet whose content lies out of reach, in pages, is not measured: the
// next port may have it in reach, and would not know it again.
func TestNoPull(t *testing.T) {
	const n, size = 4, 100
	for _, noPull := range []bool{false, true} {
		for _, ip := range []string{"192.0.2.1/24", "2001:db8:1::1/64"} {
			t.Run(fmt.Sprint(ip, " fails=", noPull), func(t *testing.T) {
				if noPull && kernel.Older(kernel.Release(), 6, 0) {
					need.Lack(t, need.Kernel, "trains of UDP whose payload is all in pages (Linux 6.0)")
				}
				d := newDomain(t, config{noPull: noPull})
				d.sendTrain(ip, n, size)
				want, other := cMarked, cMalformed
				if noPull {
					want, other = cMalformed, cMarked
				}
				if c := d.counters(); c[want] != n || c[other] != 0 {
					t.Errorf("%d datagrams: counters %v", n, c)
				}
			})
		}
	}
}

// sendTrain sends one train of n datagrams out of an interface with that address, in a
// namespace of its own: the kernel leaves what its processes send of it in pages.
func (d *domain) sendTrain(ip string, n, size int) {
	d.Helper()
	home, err := vnetns.Get()
	d.must("this namespace", err)
	ns, err := vnetns.New()
	d.must("new namespace", err)
	defer func() {
		d.must("back", vnetns.Set(home))
		_ = ns.Close()
		_ = home.Close()
	}()
	dev := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "in"}
	dev.Name = "out"
	d.must("add", netlink.LinkAdd(dev))
	d.must("no ARP", netlink.LinkSetARPOff(dev)) // nobody would answer
	// Without an address of the link the kernel looks for no router on it.
	d.must("no link-local address", netlink.LinkSetIP6AddrGenMode(dev, nl.IN6_ADDR_GEN_MODE_NONE))
	addr, err := netlink.ParseAddr(ip)
	d.must("address", err)
	addr.Flags = unix.IFA_F_NODAD
	d.must("address", netlink.AddrAdd(dev, addr))
	d.must("up", netlink.LinkSetUp(dev))
	d.must("up", netlink.LinkSetUp(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "in"}}))
	d.attach(dev.Attrs().Index, h1Out)

	var to unix.Sockaddr
	family := unix.AF_INET
	if v4 := addr.IP.To4(); v4 != nil {
		to = &unix.SockaddrInet4{Port: 5002, Addr: [4]byte{v4[0], v4[1], v4[2], 9}}
	} else {
		family = unix.AF_INET6
		to6 := &unix.SockaddrInet6{Port: 5002, Addr: [16]byte(addr.IP)}
		to6.Addr[15] = 9
		to = to6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	d.must("socket", err)
	defer unix.Close(fd)
	d.must("UDP_SEGMENT", unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, size))
	var data []byte
	for k := range n * size {
		data = append(data, byte(k/size+k%size*7))
	}
	d.must("send", unix.Sendto(fd, data, 0, to))
}

// attach makes an interface's egress that of a port, as pkg/vnet/datapath does.
func (d *domain) attach(index int, port int32) {
	d.Helper()
	stub, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, port),
			asm.StoreMem(asm.R1, 48, asm.R2, asm.Word), // cb[0]; older kernels take no constant
			asm.LoadMapPtr(asm.R2, d.Maps[bpfobj.TcMapProgs].FD()),
			asm.Mov.Imm(asm.R3, int32(bpfobj.TcRdrProgRDR_PROG_EGRESS)),
			asm.FnTailCall.Call(),
			asm.Mov.Imm(asm.R0, -1),
			asm.Return(),
		},
	})
	d.must("stub", err)
	defer stub.Close()
	d.must("clsact", netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}))
	d.must("filter", netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_EGRESS,
			Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd: stub.FD(), Name: "stub", DirectAction: true,
	}))
}

func (d *domain) must(what string, err error) {
	d.Helper()
	if err != nil {
		d.Fatalf("%s: %v", what, err)
	}
}
