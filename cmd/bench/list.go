// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"regexp"
)

// benchmark is something that is measured. Whatever it makes, it removes, also when it
// fails or ctx ends.
type benchmark struct {
	name  string
	about string // one line
	run   func(context.Context, *options) ([]Table, error)
}

// benchmarks are all there are, in the order in which they are run.
var benchmarks = []*benchmark{
	{"hooks", "ns per packet at each hook, 64-byte UDP", hooksPlain},
	{"slots", "the same for rings of other sizes", hooksSlots},
	{"gso", "ns per packet on the wire, TCP whose segments pass the hooks as one", hooksGSO},
	{"df-clear", "ns per packet that may be fragmented, so that its bits stay as they are", hooksDFClear},
	{"ipv6", "ns per packet, IPv6", hooksIPv6},
	{"carry", "ns per packet with the index in the mark or in the header inside nodes", hooksCarry},
	{"headers", "ns per packet that it costs a program to be able to write headers", headers},
	{"int", "ns per packet at each hook, INT-MD by nodes in eBPF", intNodes},
	{"rate", "of one core, what radar takes at 1 Gbit/s of full-size TCP", rate},
	{"curve-slots", "ns per packet against the part of the ring that is in use", curveSlots},
	{"curve-flows", "ns per packet against the number of flows", curveFlows},
	{"curve-ports", "ns per packet against the number of attached ports", curvePorts},
	{"exchange", "an echo and its reply through 1 to 10 routers, as ping -f", exchange},
	{"throughput", "what gets through a chain with one router when the sender sends what it can", throughput},
	{"attach", "attaching and detaching a network with many ports", attachMany},
	{"agent", "of one CPU, what the agent takes", agents},
	{"queries", "questions about a full ring, and following it", queries},
	{"sql", "a recording of 100 million packets, asked in SQL", askSQL},
}

// choose returns those whose names match.
func choose(only *regexp.Regexp) (out []*benchmark) {
	for _, b := range benchmarks {
		if only.MatchString(b.name) {
			out = append(out, b)
		}
	}
	return out
}
