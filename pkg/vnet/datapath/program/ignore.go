// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

// addressRange is struct rdr_range of bpf/backpack/config.h.
type addressRange struct{ From, To uint64 }

// maxIgnored is RDR_MAX_IGNORE, maxUnwanted RDR_MAX_UNWANTED,
// maxJoined RDR_MAX_JOINED, maxPing RDR_MAX_PING.
const (
	maxIgnored  = 16
	maxUnwanted = 12
	maxJoined   = 8
	maxPing     = 2
)

// ignoredFuncs free skbs that are no loss: the copies of packet taps, what a ping
// socket did not want (the raw socket or the kernel has its own), and the trains
// that a queue has cut, of which each segment is queued or dropped on its own.
var ignoredFuncs = []string{
	"packet_rcv", "tpacket_rcv", "packet_rcv_spkt", "ping_rcv",
	"tbf_enqueue", "tbf_segment", "cake_enqueue", "taprio_enqueue", "taprio_enqueue_segmented",
}

// pingFuncs free what a ping socket did not want instead of ping_rcv, from Linux 5.18 to
// 6.12, and what is lost for other reasons.
var pingFuncs = []string{"icmp_rcv", "icmpv6_rcv"}

// otherHostFuncs free frames for another host, which a bridge flooded: that is no
// loss either, where it is such a frame.
var otherHostFuncs = []string{"ip_rcv_core", "ip_rcv", "ip_list_rcv", "ip6_rcv_core", "ipv6_rcv", "ipv6_list_rcv"}

// nonMemberFuncs free packets for a group that nobody in the node wants: it is no
// member, and no route for the group leads on from the interface.
var nonMemberFuncs = []string{"ip_rcv_finish_core", "ip_rcv_finish", "ip_sublist_rcv", "ip_list_rcv_finish", "ip_mr_input", "ip_mr_forward",
	"ip_error", // broadcast of a subnet that the node is not in
}

// joinedFuncs free the fragments of a packet that was put together, with it.
var joinedFuncs = []string{"skb_release_data", "kfree_skb_list", "kfree_skb_list_reason"}

// quietFuncs is where functions lie whose drops are no losses, or not always; unused
// entries are zero.
type quietFuncs struct {
	ignored   [maxIgnored]addressRange
	ping      [maxPing]addressRange
	otherHost [maxUnwanted]addressRange
	nonMember [maxUnwanted]addressRange
	joined    [maxJoined]addressRange
}

// findQuiet finds them in the running kernel: none without rights to read addresses.
func findQuiet() (q quietFuncs) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return q
	}
	defer f.Close()
	ranges := findRanges(f, ignoredFuncs, otherHostFuncs, nonMemberFuncs, joinedFuncs, pingFuncs)
	copy(q.ignored[:], ranges[0])
	copy(q.otherHost[:], ranges[1])
	copy(q.nonMember[:], ranges[2])
	copy(q.joined[:], ranges[3])
	copy(q.ping[:], ranges[4])
	return q
}

// findRanges reads kallsyms ("address type name [module]", in no order beyond a
// module) and returns, for each list of names, the ranges of those functions,
// including the parts that a compiler split off (name.cold). A function ends where
// the next symbol begins.
func findRanges(kallsyms io.Reader, lists ...[]string) [][]addressRange {
	var addrs []uint64
	starts := make([][]uint64, len(lists))
	for sc := bufio.NewScanner(kallsyms); sc.Scan() && !kernel.IsProgramSymbol(sc.Bytes()); {
		hex, rest, _ := strings.Cut(sc.Text(), " ")
		addr, err := strconv.ParseUint(hex, 16, 64)
		if err != nil || addr == 0 || len(rest) < 3 || (rest[0]|0x20 != 't') {
			continue
		}
		addrs = append(addrs, addr)
		name, _, _ := strings.Cut(rest[2:], "\t")
		base, _, _ := strings.Cut(name, ".")
		for i, names := range lists {
			if slices.Contains(names, base) {
				starts[i] = append(starts[i], addr)
			}
		}
	}
	slices.Sort(addrs)
	ranges := make([][]addressRange, len(lists))
	for i := range lists {
		slices.Sort(starts[i])
		for _, start := range slices.Compact(starts[i]) {
			if next, _ := slices.BinarySearch(addrs, start+1); next < len(addrs) {
				ranges[i] = append(ranges[i], addressRange{start, addrs[next]})
			}
		}
	}
	return ranges
}
