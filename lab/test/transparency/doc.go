// SPDX-License-Identifier: Apache-2.0

/*
Package transparency shows what radar changes in a network, and whether its records are
true: nothing outside of it may differ from a run without radar, and every record
must be what captures saw.

# Running

	make transparency                     # everything: without radar, mark, header
	make transparency CASE=mtu MODE=header
	make transparency KERNELS="6.12 5.10" # in machines of lab/test/kernels
	make transparency MARKDOWN=1          # the table for docs/transparency.md

or, with a radar that exists: RADAR_BIN=bin/radar go test ./lab/test/transparency -run Cases/mtu -v

The tier "test" (package need) runs those of tier_test.go, one at least of each point of the
table in docs/transparency.md in each mode; "nightly", or a run that names a case, runs any. Only nightly
checks times beyond the limits that captures put on them.

# A case

A case is a file case_NAME_test.go that adds a Case to the list:

	var _ = add(Case{
		Name: "ttl/expiry", Point: 1,
		Shows: "routers' answers to packets whose TTL ends in the domain",
		Build: func(w *World) {
			w.Nodes("out", "r1", "r2", "far") // namespaces
			w.Link("out", "eth0", "10.0.1.1/24", "r1", "eth0", "10.0.1.2/24")
			w.Link("r1", "eth1", "10.0.2.1/24", "r2", "eth0", "10.0.2.2/24")
			w.Link("r2", "eth1", "10.0.3.1/24", "far", "eth0", "10.0.3.2/24")
			w.Forward("r1", "r2") // and routes:
			w.Route("out", "default", "10.0.1.2")
			w.Run("r1", "ip", "route", "add", ...)
			w.Attach("r1", "r2") // the others are outside: their captures are compared
		},
		Send: func(w *World) {
			for ttl := range 4 {
				p := w.UDP("10.0.1.1", "10.0.3.2", 40) // a token of its own, a source port of its own
				p.TTL = uint8(ttl + 1)
				w.Send("out", p)
			}
		},
	})

The network is built anew for each run: once without radar, then once in each mode
(mark: --carry mark, header: --carry header). Send runs when captures listen on every
port of every node. It may do anything that is the same each time; what the kernel
draws by chance is made equal by a named rule (rules_test.go), on by default or by
Case.Rules. Neighbours are static, MAC addresses fixed, there is no DAD.

Checked without a word in the case:

  - captures at nodes outside are equal to those of the run without radar, byte for byte,
    in order within a flow. GSO packets are compared as the packets that they stand for.
    "Outside" is every node that is not attached, unless World.Inside names it or one
    of its ports.
  - what observers say is equal: World.Observe (any text), World.Listen (UDP sockets),
    World.Counters (nft rules), World.RawSocket (raw sockets).
  - every record is what the captures say of its token: hops, ports, order, times, the
    addresses at each hop, how it ended. Every token that crossed the domain has one.
  - counters: none of those that mean "not measured", and none that mean trouble
    (foreign_mark, key_lost, ...), unless Case.Counters says how many.

What captures cannot know, such as a drop inside a node, the case says:

	w.Send("out", p).Lost("r1", "NETFILTER_DROP")

Under --carry header a packet that enters at an edge has its source where it leaves
its first node; what captures saw before that is not asked of records.

Cases with the same Flags share a domain that their nodes join and leave, since loading
the programs takes long; Case.Fresh, and --role, have one that is attached for them.
As many cases run at a time as -parallel says. The run without radar is no test of its
own: each mode can be run by itself.

World.Machine starts a virtual machine on taps of a node, whose captures are those of
the machine's ports as well.

A difference that is known and stays is a Limit: the case passes as long as it is
there, and fails when it is gone.

Everything the tests make has a name that nobody else has, and goes with the test.
*/
package transparency
