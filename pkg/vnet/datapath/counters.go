// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Group says what a counter's packets have in common.
type Group string

// The groups. Total = Measured + NotMeasured, as sums of their counters; notices
// count events of packets that are in the sums already, or are no business of
// radar's.
const (
	GroupTotal       Group = "total"
	GroupMeasured    Group = "measured"
	GroupNotMeasured Group = "not_measured"
	GroupNotice      Group = "notice"
)

// Counter is one of the programs' counters, summed over the CPUs.
type Counter struct {
	Name  string `json:"name"`
	Help  string `json:"help"` // one line, with marks of pkg/fault
	Group Group  `json:"group"`
	Value uint64 `json:"value"`
}

// counterText describes the counters. The index is enum rdr_counter; a test
// demands a line for each.
var counterText = [bpfobj.TcRdrCounterRDR_C_MAX]Counter{
	bpfobj.TcRdrCounterRDR_C_SEEN: {Name: "seen", Group: GroupTotal,
		Help: "IP packets that met a source (segments of a GSO packet count one by one)"},
	bpfobj.TcRdrCounterRDR_C_MARKED: {Name: "marked", Group: GroupMeasured,
		Help: "packets that got a backpack"},
	bpfobj.TcRdrCounterRDR_C_NM_IPV6: {Name: "not_measured_ipv6", Group: GroupNotMeasured,
		Help: "IPv6 packets, where IPv6 is not measured, or not yet"},
	bpfobj.TcRdrCounterRDR_C_NM_MULTICAST: {Name: "not_measured_multicast", Group: GroupNotMeasured,
		Help: "link-local multicast (224.0.0.0/24, IPv6), IGMP, and frames for bridges"},
	bpfobj.TcRdrCounterRDR_C_NM_MALFORMED: {Name: "not_measured_malformed", Group: GroupNotMeasured,
		Help: "packets whose headers do not add up, and trains of another length than their header says"},
	bpfobj.TcRdrCounterRDR_C_NM_NO_SLOT: {Name: "not_measured_no_slot", Group: GroupNotMeasured,
		Help: "no slot was free: too many packets in flight (more ‹slots›, shorter ‹timeout›)"},
	bpfobj.TcRdrCounterRDR_C_NM_SEGS: {Name: "not_measured_segs", Group: GroupNotMeasured,
		Help: "GSO packets of more segments than are measured, not of plain TCP or UDP, or of IPv6 datagrams that begin alike"},
	bpfobj.TcRdrCounterRDR_C_NM_KEY_IN_FLIGHT: {Name: "not_measured_key_in_flight", Group: GroupNotMeasured,
		Help: "packets with DF clear, or with a TTL below 8, equal to one under way: addresses, ports, IP ID, first bytes of the payload"},
	bpfobj.TcRdrCounterRDR_C_NM_KEYS_FULL: {Name: "not_measured_keys_full", Group: GroupNotMeasured,
		Help: "the table of keys was full (more ‹keys›)"},
	bpfobj.TcRdrCounterRDR_C_NM_LEASE: {Name: "not_measured_lease", Group: GroupNotMeasured,
		Help: "the lease had ended: no agent renewed it"},
	bpfobj.TcRdrCounterRDR_C_NM_WRITE: {Name: "not_measured_write", Group: GroupNotMeasured,
		Help: "the header could not be written"},
	bpfobj.TcRdrCounterRDR_C_NM_VLAN_DEPTH: {Name: "not_measured_vlan_depth", Group: GroupNotMeasured,
		Help: "packets under more than two VLAN tags"},
	bpfobj.TcRdrCounterRDR_C_NM_WATCH: {Name: "not_measured_watch", Group: GroupNotMeasured,
		Help: "packets that the expression of ‹watch› does not match"},
	bpfobj.TcRdrCounterRDR_C_NM_NEIGHBOUR: {Name: "not_measured_neighbour", Group: GroupNotMeasured,
		Help: "IPv6 neighbour and router discovery, MLD: what the nodes of one link tell each other"},
	bpfobj.TcRdrCounterRDR_C_NM_EXTENSIONS: {Name: "not_measured_extensions", Group: GroupNotMeasured,
		Help: "IPv6 packets with more extension headers than are read, and jumbograms"},
	bpfobj.TcRdrCounterRDR_C_OTHER_L3: {Name: "other_l3", Group: GroupNotice,
		Help: "frames that are no IP (ARP, ...); not in seen"},
	bpfobj.TcRdrCounterRDR_C_PASSED: {Name: "passed", Group: GroupNotice,
		Help: "forwarded packets without a backpack, left alone"},
	bpfobj.TcRdrCounterRDR_C_FOREIGN: {Name: "foreign", Group: GroupNotice,
		Help: "headers that look like a GUID but belong to packets that are not ours, or to trains that reach over others' slots"},
	bpfobj.TcRdrCounterRDR_C_STALE: {Name: "stale", Group: GroupNotice,
		Help: "headers that point at a slot which is too old, and is not known to be the packet's (else: late)"},
	bpfobj.TcRdrCounterRDR_C_FOREIGN_MARK: {Name: "foreign_mark", Group: GroupNotice,
		Help: "marks in our bits that are not ours; left as they are"},
	bpfobj.TcRdrCounterRDR_C_MARK_BUSY: {Name: "mark_busy", Group: GroupNotice,
		Help: "packets that came in with our mark bits in use (another ‹carry› mark=MASK)"},
	bpfobj.TcRdrCounterRDR_C_EVENT_FULL: {Name: "event_full", Group: GroupNotice,
		Help: "events that did not fit into a slot (more ‹max-hops›)"},
	bpfobj.TcRdrCounterRDR_C_TTL_UNDERFLOW: {Name: "ttl_underflow", Group: GroupNotice,
		Help: "packets whose TTL was lowered more often than it could be; restored with TTL 1"},
	bpfobj.TcRdrCounterRDR_C_QUOTE_RESTORED: {Name: "quote_restored", Group: GroupNotice,
		Help: "packets quoted in ICMP errors that were restored"},
	bpfobj.TcRdrCounterRDR_C_KEY_LOST: {Name: "key_lost", Group: GroupNotice,
		Help: "packets that could not be keyed on the way (NAT, TTL nearly used up)"},
	bpfobj.TcRdrCounterRDR_C_LOSS_EVENT: {Name: "loss_event", Group: GroupNotice,
		Help: "drops of our packets that the kernel reported"},
	bpfobj.TcRdrCounterRDR_C_LOSS_WITHDRAWN: {Name: "loss_withdrawn", Group: GroupNotice,
		Help: "drops that were none: the packet was seen again"},
	bpfobj.TcRdrCounterRDR_C_LOCAL_DROP: {Name: "local_drop", Group: GroupNotice,
		Help: "packets dropped by the receiving node after delivery"},
	bpfobj.TcRdrCounterRDR_C_LOSS_IGNORED: {Name: "loss_ignored", Group: GroupNotice,
		Help: "frees that are no loss: copies for packet taps, copies of packets that have arrived elsewhere, and the like"},
	bpfobj.TcRdrCounterRDR_C_SLOTS_SKIPPED: {Name: "slots_skipped", Group: GroupNotice,
		Help: "slots stepped over because their packet was still under way"},
	bpfobj.TcRdrCounterRDR_C_RESTORE_FAILED: {Name: "restore_failed", Group: GroupNotice,
		Help: "packets of ours whose header could not be restored"},
	bpfobj.TcRdrCounterRDR_C_QUEUE_UNSEEN: {Name: "queue_unseen", Group: GroupNotice,
		Help: "waits in queues that did not fit into a slot (more ‹max-hops›)"},
	bpfobj.TcRdrCounterRDR_C_NOT_HERE: {Name: "not_here", Group: GroupNotice,
		Help: "marks and headers of packets of ours that were elsewhere, and marks of trains that reach over others' slots: made by a node's process, measured as packets of their own"},
	bpfobj.TcRdrCounterRDR_C_NODE_CHANGED: {Name: "node_changed", Group: GroupNotice,
		Help: "times that an interface came or went, and ports restored packets until that was followed"},
	bpfobj.TcRdrCounterRDR_C_UNSENT: {Name: "unsent", Group: GroupNotice,
		Help: "packets that a node dropped itself before they were sent (its rules, no answer to ARP); «loss» says which"},
	bpfobj.TcRdrCounterRDR_C_UNSENT_FULL: {Name: "unsent_full", Group: GroupNotice,
		Help: "of these, packets of which only the number is known: too many flows and places"},
	bpfobj.TcRdrCounterRDR_C_CONTENT_CHANGED: {Name: "content_changed", Group: GroupNotice,
		Help: "packets that came with other content, and were restored. A program in a node had read them from the wire: their story ended there, as left, and a new one began. Or a tc program, or a rule on a link or in a node, changed them: their story goes on"},
	bpfobj.TcRdrCounterRDR_C_TTL_SET: {Name: "ttl_set", Group: GroupNotice,
		Help: "packets of ours whose TTL (or DSCP) something between two ports had set: found by their content"},
	bpfobj.TcRdrCounterRDR_C_LATE: {Name: "late", Group: GroupNotice,
		Help: "packets that were under way for longer than ‹timeout›: restored, but their stories had ended as expired. Or that came behind another packet of their flow which was taken for them"},
}

// missedHelp explains the one counter that the kernel keeps, not the programs.
const missedHelp = "drops that the kernel did not show to the loss hook, which was running on that CPU already; found by timeout"

// lossMissed returns how often the kernel skipped the loss hook, 0 without a hook.
func (h *Handle) lossMissed() (uint64, error) {
	if h.lossHook == nil {
		return 0, nil
	}
	stats, err := h.lossHook.Stats()
	if err != nil {
		return 0, fmt.Errorf("read the loss hook's statistics: %w", err)
	}
	return stats.RecursionMisses, nil
}

// dropLink is the pin of the loss hook's link.
func dropLink(name string) string { return domain.Kind.LinkPin(name, "kfree_skb") }

// openLossHook returns nil if the domain has none.
func openLossHook(name string) (*ebpf.Program, error) {
	at, err := hook.Look(dropLink(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if failed, ok := errors.AsType[*hook.Error](err); ok {
		return nil, fmt.Errorf("%s of the loss hook: %w", failed.Step, failed.Cause)
	}
	prog, err := ebpf.NewProgramFromID(at.Program)
	if err != nil {
		return nil, fmt.Errorf("open the loss hook: %w", err)
	}
	return prog, nil
}

// NamedCounters are counters that were kept, by their names, in the order of the enum. Those that this radar does
// not know are left out.
func NamedCounters(values map[string]uint64) (counters []Counter) {
	for i := range counterText {
		if value, ok := values[counterText[i].Name]; ok {
			c := counterText[i]
			c.Value = value
			counters = append(counters, c)
		}
	}
	return counters
}

// counter reads one counter.
func (h *Handle) counter(which bpfobj.TcRdrCounter) (value uint64, err error) {
	var cpus []uint64
	if err := h.maps[bpfobj.TcMapCounters].Lookup(uint32(which), &cpus); err != nil {
		return 0, fmt.Errorf("read counter %s: %w", counterText[which].Name, err)
	}
	for _, v := range cpus {
		value += v
	}
	return value, nil
}

// Counters reads all counters, in the order of the enum, and the kernel's own of
// drops that the loss hook was not shown.
func (h *Handle) Counters() ([]Counter, error) {
	counters := make([]Counter, len(counterText))
	for i := range counters {
		value, err := h.counter(bpfobj.TcRdrCounter(i))
		if err != nil {
			return nil, err
		}
		counters[i] = counterText[i]
		counters[i].Value = value
	}
	missed, err := h.lossMissed()
	if err != nil {
		return nil, err
	}
	return append(counters, Counter{Name: "loss_missed", Help: missedHelp, Group: GroupNotice, Value: missed}), nil
}
