// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// addressRange is struct rdr_range of bpf/radar/config.h.
type addressRange struct{ From, To uint64 }

// maxIgnored is RDR_MAX_IGNORE.
const maxIgnored = 16

// ignoredFuncs free skbs that are no loss: the copies of packet taps, what a ping
// socket did not want (the raw socket or the kernel has its own), and the trains
// that a queue has cut, of which each segment is queued or dropped on its own.
var ignoredFuncs = []string{
	"packet_rcv", "tpacket_rcv", "packet_rcv_spkt", "ping_rcv",
	"tbf_enqueue", "tbf_segment", "cake_enqueue", "taprio_enqueue", "taprio_enqueue_segmented",
}

// ignoredRanges returns where those functions lie, unused entries zero. Without
// rights to read addresses there is none.
func ignoredRanges() [maxIgnored]addressRange {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return [maxIgnored]addressRange{}
	}
	defer f.Close()
	return findRanges(f, ignoredFuncs)
}

// findRanges reads kallsyms ("address type name [module]", in no order beyond a
// module) and returns the ranges of the functions named, including the parts that
// a compiler split off (name.cold). A function ends where the next symbol begins.
func findRanges(kallsyms io.Reader, names []string) (ranges [maxIgnored]addressRange) {
	var addrs, starts []uint64
	for sc := bufio.NewScanner(kallsyms); sc.Scan(); {
		hex, rest, _ := strings.Cut(sc.Text(), " ")
		addr, err := strconv.ParseUint(hex, 16, 64)
		if err != nil || addr == 0 || len(rest) < 3 || (rest[0]|0x20 != 't') {
			continue
		}
		addrs = append(addrs, addr)
		name, _, _ := strings.Cut(rest[2:], "\t")
		base, _, _ := strings.Cut(name, ".")
		if slices.Contains(names, base) {
			starts = append(starts, addr)
		}
	}
	slices.Sort(addrs)
	slices.Sort(starts)
	starts = slices.Compact(starts)
	n := 0
	for _, start := range starts {
		i, _ := slices.BinarySearch(addrs, start+1)
		if n == maxIgnored || i == len(addrs) {
			break
		}
		ranges[n] = addressRange{start, addrs[i]}
		n++
	}
	return ranges
}
