// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const nfDrop = 0 // NF_DROP of linux/netfilter.h

// dropForwarded is "add table ip t; add chain ip t c { type filter hook forward priority
// 0; policy drop; }" in the namespace of the thread, without the tool.
func dropForwarded() error {
	be32 := func(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
	name := func(kind int, value string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(value)) }
	hook := nl.NewRtAttr(unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, nil)
	hook.AddRtAttr(unix.NFTA_HOOK_HOOKNUM, be32(unix.NF_INET_FORWARD))
	hook.AddRtAttr(unix.NFTA_HOOK_PRIORITY, be32(0))

	batch := nfMessage(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	batch = append(batch, nfMessage(nftType(unix.NFT_MSG_NEWTABLE), unix.NLM_F_CREATE, unix.AF_INET, 0,
		name(unix.NFTA_TABLE_NAME, "t"))...)
	batch = append(batch, nfMessage(nftType(unix.NFT_MSG_NEWCHAIN), unix.NLM_F_CREATE|unix.NLM_F_ACK, unix.AF_INET, 0,
		name(unix.NFTA_CHAIN_TABLE, "t"), name(unix.NFTA_CHAIN_NAME, "c"), hook,
		nl.NewRtAttr(unix.NFTA_CHAIN_POLICY, be32(nfDrop)), name(unix.NFTA_CHAIN_TYPE, "filter"))...)
	batch = append(batch, nfMessage(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)...)

	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("add chain: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return fmt.Errorf("add chain: %w", err)
	}
	if n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("add chain: an answer of %d bytes", n)
	}
	if errno := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return fmt.Errorf("add chain: %w", unix.Errno(-errno))
	}
	return nil
}

func nftType(message int) int { return unix.NFNL_SUBSYS_NFTABLES<<8 | message }

// nfMessage is one message of nfnetlink, with struct nfgenmsg in front of its attributes.
func nfMessage(kind, flags int, family uint8, resource uint16, attrs ...*nl.RtAttr) []byte {
	req := nl.NewNetlinkRequest(kind, flags)
	req.AddRawData(binary.BigEndian.AppendUint16([]byte{family, 0}, resource))
	for _, a := range attrs {
		req.AddRawData(a.Serialize())
	}
	return req.Serialize()
}
