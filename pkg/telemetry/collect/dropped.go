// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Dropped is what the kernel has dropped in a network namespace on the way to UDP sockets, by the
// counters' names: those of /proc/net/snmp, netstat and snmp6.
type Dropped map[string]uint64

// ReadDropped reads the counters of this thread's namespace.
func ReadDropped() (Dropped, error) { return readDropped("/proc/thread-self/net") }

func readDropped(dir string) (Dropped, error) {
	d := make(Dropped)
	for _, name := range []string{"snmp", "netstat"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("read what the kernel drops: %w", err)
		}
		// Of each group a line with names, and one with their values.
		var titles []string
		for lines := bufio.NewScanner(strings.NewReader(string(b))); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if titles == nil {
				titles = fields
				continue
			}
			for i := 1; i < min(len(titles), len(fields)); i++ {
				d.set(strings.TrimSuffix(fields[0], ":")+titles[i], fields[i])
			}
			titles = nil
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "snmp6"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6 has none
		return nil, fmt.Errorf("read what the kernel drops: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) == 2 {
			d.set(fields[0], fields[1])
		}
	}
	return d, nil
}

func (d Dropped) set(name, value string) {
	if n, err := strconv.ParseUint(value, 10, 64); err == nil {
		d[name] = n
	}
}

// Since says, a line each, what was dropped since then, and what helps. None: nothing was.
func (d Dropped) Since(then Dropped) (lines []string) {
	more := func(names ...string) (n uint64) {
		for _, name := range names {
			if d[name] > then[name] {
				n += d[name] - then[name]
			}
		}
		return n
	}
	say := func(n uint64, what, names string) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%s %d: %s", names, n, what))
		}
	}
	less := func(n uint64, of ...uint64) uint64 {
		for _, k := range of {
			n -= min(n, k)
		}
		return n
	}
	check := more("IpExtInCsumErrors")
	say(check, "packets with a wrong IP checksum, such as 0, which BMv2 sends: use ‹interface›, which takes them", "IpInHdrErrors, IpExt InCsumErrors")
	say(less(more("IpInHdrErrors"), check), "packets with a wrong IP header: use ‹interface›", "IpInHdrErrors")
	say(more("Ip6InHdrErrors"), "packets with a wrong IPv6 header: use ‹interface›", "Ip6InHdrErrors")
	say(more("IpInAddrErrors", "Ip6InAddrErrors"), "packets for addresses that this machine does not have: use ‹interface›", "InAddrErrors")
	say(more("IpExtIPReversePathFilter", "TcpExtIPReversePathFilter"), "packets that came by another way than answers would go: use ‹interface›, or set rp_filter", "IPReversePathFilter")
	say(more("UdpNoPorts", "Udp6NoPorts"), "datagrams to ports where nobody listens: is it another ‹port›?", "UdpNoPorts")
	sums, full := more("UdpInCsumErrors", "Udp6InCsumErrors"), more("UdpRcvbufErrors", "Udp6RcvbufErrors")
	say(sums, "datagrams with a wrong UDP checksum: use ‹interface›", "UdpInCsumErrors")
	say(full, "datagrams that found a socket full", "UdpRcvbufErrors")
	say(less(more("UdpInErrors", "Udp6InErrors"), sums, full), "datagrams with another error", "UdpInErrors")
	return lines
}
