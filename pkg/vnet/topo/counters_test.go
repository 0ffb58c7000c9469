// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"maps"
	"testing"
)

// What the kernel writes becomes counters with nstat's names; those of all CPUs are added up, and zeros are left out.
func TestReadCounters(t *testing.T) {
	got := make(map[string]uint64)
	addPairs(got, []byte("Ip: Forwarding ReasmTimeout\nIp: 1 3\nTcpExt: SyncookiesSent ListenOverflows\nTcpExt: 0 55\nIpExt: InNoRoutes\nIpExt: 0\n"))
	addLines(got, []byte("Ip6ReasmTimeout                 \t2\nUdp6NoPorts                     \t0\n"))
	addConntrack(got, []byte("entries  clashres found insert_failed drop early_drop\n"+
		"00000003  00000000 00000000 00000007 0000000a 00000000\n00000003  00000000 00000017 00000001 00000010 00000000\n"))
	want := map[string]uint64{"IpForwarding": 1, "IpReasmTimeout": 3, "TcpExtListenOverflows": 55, "Ip6ReasmTimeout": 2,
		ConntrackInsertFailed: 8, ConntrackDrop: 26}
	if !maps.Equal(got, want) {
		t.Errorf("counters %v, want %v", got, want)
	}
}
