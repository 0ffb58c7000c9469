// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// Short names for the ABI's constants.
const (
	cSeen          = bpfobj.TcRdrCounterRDR_C_SEEN
	cMarked        = bpfobj.TcRdrCounterRDR_C_MARKED
	cIPv6          = bpfobj.TcRdrCounterRDR_C_NM_IPV6
	cMulticast     = bpfobj.TcRdrCounterRDR_C_NM_MULTICAST
	cMalformed     = bpfobj.TcRdrCounterRDR_C_NM_MALFORMED
	cNoSlot        = bpfobj.TcRdrCounterRDR_C_NM_NO_SLOT
	cSegs          = bpfobj.TcRdrCounterRDR_C_NM_SEGS
	cKeyInFlight   = bpfobj.TcRdrCounterRDR_C_NM_KEY_IN_FLIGHT
	cKeysFull      = bpfobj.TcRdrCounterRDR_C_NM_KEYS_FULL
	cLease         = bpfobj.TcRdrCounterRDR_C_NM_LEASE
	cWatch         = bpfobj.TcRdrCounterRDR_C_NM_WATCH
	cNeighbour     = bpfobj.TcRdrCounterRDR_C_NM_NEIGHBOUR
	cExtensions    = bpfobj.TcRdrCounterRDR_C_NM_EXTENSIONS
	cWrite         = bpfobj.TcRdrCounterRDR_C_NM_WRITE
	cVLANDepth     = bpfobj.TcRdrCounterRDR_C_NM_VLAN_DEPTH
	cOther         = bpfobj.TcRdrCounterRDR_C_OTHER_L3
	cPassed        = bpfobj.TcRdrCounterRDR_C_PASSED
	cForeign       = bpfobj.TcRdrCounterRDR_C_FOREIGN
	cStale         = bpfobj.TcRdrCounterRDR_C_STALE
	cForeignMark   = bpfobj.TcRdrCounterRDR_C_FOREIGN_MARK
	cMarkBusy      = bpfobj.TcRdrCounterRDR_C_MARK_BUSY
	cEventFull     = bpfobj.TcRdrCounterRDR_C_EVENT_FULL
	cUnderflow     = bpfobj.TcRdrCounterRDR_C_TTL_UNDERFLOW
	cQuote         = bpfobj.TcRdrCounterRDR_C_QUOTE_RESTORED
	cNotHere       = bpfobj.TcRdrCounterRDR_C_NOT_HERE
	cNodeChanged   = bpfobj.TcRdrCounterRDR_C_NODE_CHANGED
	cChanged       = bpfobj.TcRdrCounterRDR_C_CONTENT_CHANGED
	cTTLSet        = bpfobj.TcRdrCounterRDR_C_TTL_SET
	cLate          = bpfobj.TcRdrCounterRDR_C_LATE
	cKeyLost       = bpfobj.TcRdrCounterRDR_C_KEY_LOST
	cLoss          = bpfobj.TcRdrCounterRDR_C_LOSS_EVENT
	cWithdrawn     = bpfobj.TcRdrCounterRDR_C_LOSS_WITHDRAWN
	cLocalDrop     = bpfobj.TcRdrCounterRDR_C_LOCAL_DROP
	cLossIgnored   = bpfobj.TcRdrCounterRDR_C_LOSS_IGNORED
	cSkipped       = bpfobj.TcRdrCounterRDR_C_SLOTS_SKIPPED
	cRestoreFailed = bpfobj.TcRdrCounterRDR_C_RESTORE_FAILED
)

const (
	stDone      = bpfobj.TcRdrStateRDR_ST_DONE
	stLost      = bpfobj.TcRdrStateRDR_ST_LOST
	stKeyed     = bpfobj.TcRdrStateRDR_ST_KEYED
	stLocalDrop = bpfobj.TcRdrStateRDR_ST_LOCAL_DROP
	stHeld      = bpfobj.TcRdrStateRDR_ST_HELD
	stFull      = bpfobj.TcRdrStateRDR_ST_FULL
	stGroup     = bpfobj.TcRdrStateRDR_ST_GROUP
	stIPv6      = bpfobj.TcRdrStateRDR_ST_IPV6
)

// counterNames reads the names of enum rdr_counter from the object's BTF.
var counterNames = sync.OnceValues(func() (map[bpfobj.TcRdrCounter]string, error) {
	spec, err := bpfobj.LoadTc()
	if err != nil {
		return nil, err
	}
	var enum *btf.Enum
	if err := spec.Types.TypeByName("rdr_counter", &enum); err != nil {
		return nil, fmt.Errorf("find enum rdr_counter: %w", err)
	}
	names := make(map[bpfobj.TcRdrCounter]string)
	for _, v := range enum.Values {
		names[bpfobj.TcRdrCounter(v.Value)] = v.Name
	}
	delete(names, bpfobj.TcRdrCounterRDR_C_MAX)
	return names, nil
})

func counterName(c bpfobj.TcRdrCounter) string {
	names, err := counterNames()
	if err != nil {
		return err.Error()
	}
	return names[c]
}
