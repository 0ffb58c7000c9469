// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDroppedSince: nothing is said where nothing was dropped; no packet is said twice, though the
// kernel counts some in two counters.
func TestDroppedSince(t *testing.T) {
	now, err := ReadDropped()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IpInHdrErrors", "IpExtInCsumErrors", "UdpNoPorts", "UdpInErrors", "UdpRcvbufErrors", "UdpInCsumErrors", "IpInAddrErrors", "TcpExtIPReversePathFilter"} {
		if _, ok := now[name]; !ok {
			t.Errorf("the kernel has no counter %s", name)
		}
	}
	if lines := now.Since(now); lines != nil {
		t.Errorf("quiet: %q", lines)
	}
	then := Dropped{"IpInHdrErrors": 5, "UdpNoPorts": 9}
	got := Dropped{
		"IpInHdrErrors": 15, "IpExtInCsumErrors": 7, "Ip6InHdrErrors": 1, "UdpNoPorts": 9, "Udp6NoPorts": 2,
		"UdpInErrors": 6, "UdpInCsumErrors": 1, "UdpRcvbufErrors": 4,
	}.Since(then)
	want := []string{
		"IpInHdrErrors, IpExt InCsumErrors 7: packets with a wrong IP checksum, such as 0, which BMv2 sends: use ‹interface›, which takes them",
		"IpInHdrErrors 3: packets with a wrong IP header: use ‹interface›",
		"Ip6InHdrErrors 1: packets with a wrong IPv6 header: use ‹interface›",
		"UdpNoPorts 2: datagrams to ports where nobody listens: is it another ‹port›?",
		"UdpInCsumErrors 1: datagrams with a wrong UDP checksum: use ‹interface›",
		"UdpRcvbufErrors 4: datagrams that found a socket full",
		"UdpInErrors 1: datagrams with another error",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
