// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"regexp"

	"github.com/vnetradar/radar/cmd/bench/result"
)

// benchmark is something that is measured. Whatever it makes, it removes, also when it
// fails or ctx ends.
type benchmark struct {
	name  string
	about string // one line
	run   func(context.Context, *options) ([]result.Table, error)
}

// benchmarks are all there are, in the order in which they are run.
var benchmarks = []*benchmark{
	{name: "hooks", about: "ns per packet at each hook, 64-byte UDP", run: hooksPlain},
	{name: "slots", about: "the same for rings of other sizes", run: hooksSlots},
	{name: "gso", about: "ns per packet on the wire, TCP whose segments pass the hooks as one", run: hooksGSO},
	{name: "df-clear", about: "ns per packet that may be fragmented, so that its bits stay as they are", run: hooksDFClear},
	{name: "ipv6", about: "ns per packet, IPv6", run: hooksIPv6},
	{name: "carry", about: "ns per packet with the index in the mark or in the header inside nodes", run: hooksCarry},
	{name: "headers", about: "ns per packet that it costs a program to be able to write headers", run: headers},
	{name: "int", about: "ns per packet at each hook, INT-MD by nodes in eBPF", run: intNodes},
	{name: "rate", about: "of one core, what radar takes at 1 Gbit/s of full-size TCP", run: rate},
	{name: "curve-slots", about: "ns per packet against the part of the ring that is in use", run: curveSlots},
	{name: "curve-flows", about: "ns per packet against the number of flows", run: curveFlows},
	{name: "curve-ports", about: "ns per packet against the number of attached ports", run: curvePorts},
	{name: "exchange", about: "an echo and its reply through 1 to 10 routers, as ping -f", run: exchange},
	{name: "throughput", about: "what gets through a chain with one router when the sender sends what it can", run: throughput},
	{name: "goodput", about: "what gets through slow links of a path through 1 to 10 routers (the paper's Fig. 7)", run: goodput},
	{name: "cpu", about: "of the whole machine's CPU, while TCP goes through one router at several rates (Fig. 9)", run: machineCPU},
	{name: "attach", about: "attaching and detaching a network with many ports", run: attachMany},
	{name: "agent", about: "of one CPU, what the agent takes", run: agents},
	{name: "queries", about: "questions about a full ring, and following it", run: queries},
	{name: "sql", about: "a recording of 100 million packets, asked in SQL", run: askSQL},
}

// names are those of all benchmarks, in order.
func names() (all []string) {
	for _, b := range benchmarks {
		all = append(all, b.name)
	}
	return all
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
