/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout shared by the programs and user space. This is its only origin:
 * bpf2go turns the BTF of these types into Go (pkg/bpfobj), and a test there
 * compares size and every offset.
 *
 * Rules: fixed-width types, named padding, no bit fields, no packed structs.
 * Whoever changes anything here raises Version in pkg/vnet/domain, which is in the pin path.
 */
#ifndef BACKPACK_ABI_H
#define BACKPACK_ABI_H

#include "lib/base.h"

#define RDR_LINE 64 /* bytes of a cache line; a slot is a whole number of them */
#define RDR_MAX_SLOT_LINES 8

#define RDR_HASH_KEYS 7

#define RDR_MAX_NODES 4096
#define RDR_MAX_PORTS 16384
#define RDR_MAX_SEGS 128 /* longest GSO train that is measured */
#define RDR_WINDOW 16	 /* slots that a source looks at together */
#define RDR_MAX_RUN 1024 /* packets that GRO may have joined to one skb */

/*
 * Backpack: one slot of the ring. The ring is a BPF array whose element is one
 * slot; struct rdr_slot is its first two cache lines, and the load-time slot
 * size adds whole lines of further cells.
 *
 * A slot is identified by its *position*: a 64-bit number that only grows. The ring
 * index is position mod slots. The position is unique for the domain's life, so it is
 * both the generation and the sequence number of the slot: a reader copies the slot,
 * reads the position again and takes the copy only if both are equal and not 0. Cells
 * below nev do not change within a position, with two exceptions: RDR_EV_INGRESS or
 * RDR_EV_DELIVER may become RDR_EV_IGNORED, and a later end may replace the end of a full
 * log (RDR_ST_FULL). So a reader that goes on at nev reads the cells before it again.
 *
 * A GSO train of n segments takes n neighbouring slots. Its *head* is the slot with
 * seg == 0; segment k is at position head + k. While the train is whole, every event is
 * written to the head. The slots of the others, if it is of TCP, may then hold what they
 * held before: an older packet (members.h). Once a part of it is seen alone the head is
 * marked RDR_CUT. From then on every segment has events in its own slot, and inherits the
 * head's events that lack RDR_EVF_PART.
 */
struct rdr_slot {
	/* --- first cache line: all that a hop needs --- */
	__u64 pos;   /* ring position; 0 while the slot is being rewritten */
	__u64 t0_ns; /* CLOCK_MONOTONIC at the source */
	__u8 nev;    /* cells in use */
	__u8 state;  /* RDR_ST_* */
	__u8 proto;  /* IP protocol */
	__u8 cut;    /* enum rdr_cut */
	__u32 tag;   /* content tag, see identity.h */
	__u32 tag2;
	__be16 id; /* true IP ID, TTL, TOS, as they were when last put on the */
	__u8 ttl;  /* wire; of the whole train, or of this segment if RDR_OWN */
	__u8 tos;
	__u8 seg;	 /* place in the train; 0: head, or alone */
	__u8 segs;	 /* segments of the train; 1: alone */
	__u16 len;	 /* IP bytes of this segment alone */
	__u32 flow_hash; /* of the addresses and ports as last seen */
	__u64 ev0[3];	 /* cells 0..2 */
	/* --- second cache line: written at the source, read for records; heads only --- */
	__be32 saddr; /* as the source saw them */
	__be32 daddr;
	__be16 sport; /* TCP, UDP, SCTP ports; ICMP echo: identifier, sequence */
	__be16 dport;
	__be16 first_id; /* IP ID, TTL, TOS as the source saw them */
	__u8 first_ttl;
	__u8 first_tos;
	__be32 key_saddr; /* as the entry in `keys` has them, if RDR_ST_KEYED */
	__be32 key_daddr;
	__u32 train_len; /* IP bytes of all segments together */
	__be16 frag_off; /* IP flags and fragment offset at the source */
	__u8 icmp_type;
	__u8 icmp_code;
	__be16 train_id; /* true ID, TTL, TOS of the train when it was cut (RDR_CUT) */
	__u8 train_ttl;
	__u8 train_tos;
	__u16 gso_size;	 /* payload bytes of each segment but the last; 0: alone */
	__u8 flags;	 /* RDR_SF_* */
	__u8 hdr;	 /* bytes of IP and TCP or UDP header that each segment has; 0: too many */
	__be32 tcp_ack;	 /* of TCP, bytes 8 to 11 of its header at the source; else 0 */
	__be32 tcp_rest; /* bytes 12 to 15: data offset, flags, window (RFC 9293, section 3.1) */
	__u64 ev1[2];	 /* cells 3, 4; cells 5.. fill the following lines */
};

#define RDR_CELLS(lines) (5 + 8 * ((lines) - 2))

/* The log's last cells are kept for the packet's end: one for its arrival or departure, three for
 * its loss. No other event takes them. In a full log, events may be missing before them. */
#define RDR_END_CELLS 4

enum rdr_slot_flag {
	RDR_SF_FRAGMENT = 1, /* not a first fragment: no ports, no ICMP type */
	RDR_SF_VLAN = 2,     /* the source saw a VLAN tag */
};

/* The first cell of an event. (Slots hold numbers: types that user space reads have no bit
 * fields.) Data cells follow some events. Cell k is at byte 40 + 8k of the slot, plus 48 where
 * k > 2. */
union rdr_cell {
	struct {
		__u64 ns : 40; /* since t0: 18 minutes */
		__u64 port : 16;
		__u64 flags : 4; /* enum rdr_event_flag */
		__u64 kind : 4;	 /* enum rdr_event */
	};
	__u64 word;
};

/* The cell behind RDR_EV_LOSS: who freed the packet, and why. */
union rdr_where {
	struct {
		__u64 caller : 48; /* low bits of the address */
		__u64 reason : 16; /* subsystem:4 | number:12 */
	};
	__u64 word;
};

enum rdr_event {
	RDR_EV_NONE = 0,
	RDR_EV_INGRESS = 1, /* seen at TC ingress of port */
	RDR_EV_EGRESS = 2,  /* seen at TC egress of port, stays inside the domain */
	RDR_EV_DELIVER = 3, /* TC ingress of port, destination is this node */
	RDR_EV_LEFT = 4,    /* TC egress of port, an edge: left the domain */
	/* kfree_skb: port is that of skb->dev, or RDR_NO_PORT. Without a caller: port is a tunnel's,
	 * which answered that the packet is too large.
	 * Cell +1: union rdr_where.
	 * Cell +2: first 8 bytes of the name of the device's root qdisc. */
	RDR_EV_LOSS = 5,
	/* Addresses changed inside the node (NAT); precedes the egress event.
	 * Cell +1: saddr in the low half, daddr in the high one; cell +2: sport in
	 * bits 0-15, dport in bits 16-31; all as they lie in the packet. */
	RDR_EV_ADDR = 6,
	/* The same for IPv6. Cells +1, +2: source address; +3, +4: destination; +5: ports. */
	RDR_EV_ADDR6 = 7,
	/* Left the queue of port. */
	RDR_EV_DEQUEUE = 8,
	/* At the source of a tunnel's outer packet; cell +1: position of the slot of the
	 * packet inside, cell +2: 0. */
	RDR_EV_INNER = 9,
	/* RDR_EV_INGRESS, or RDR_EV_DELIVER, of a copy that the node did not want: it is no
	 * member of the group, or the frame was for another host. The program that sees the kernel
	 * free the copy writes this over the arrival. If the node has a later event, the copy went
	 * on after all. */
	RDR_EV_IGNORED = 10,
};

#define RDR_NO_PORT 0xffff

enum rdr_event_flag {
	RDR_EVF_FIRST = 1,  /* the first (or only) packet of its skb: counts skbs */
	RDR_EVF_PART = 2,   /* of this slot alone, not of the whole train */
	RDR_EVF_SOURCE = 4, /* this event made the packet ours */
	RDR_EVF_KEYED = 8,  /* found (ingress) or sent (egress) by key, no bit changed */
	/* RDR_EV_IGNORED of a frame for another host: the kernel has freed it, and no program
	 * reads at that interface, so none has a copy. */
	RDR_EVF_UNREAD = 8,
};

enum rdr_state {
	RDR_ST_DONE = 1,	/* delivered, left or lost: may be reused after min_age */
	RDR_ST_LOST = 2,	/* the last event is a loss; withdrawn by a later event */
	RDR_ST_KEYED = 4,	/* has an entry in `keys` */
	RDR_ST_FULL = 8,	/* some event did not fit into ev[] */
	RDR_ST_LOCAL_DROP = 16, /* freed as a drop after delivery */
	RDR_ST_HELD = 32,	/* was lost inside a node: copies may live, keep the slot longer */
	RDR_ST_IPV6 = 64,
	/* Multicast, broadcast: a tree. Each branch has its own end; never DONE or LOST. */
	RDR_ST_GROUP = 128,
};

/*
 * IPv6 (RDR_ST_IPV6). id: the low 16 bits of the flow label; ttl: hop limit; tos:
 * traffic class. saddr: the header's first word (version, class, label) as the source
 * saw it; daddr: the Identification of its fragment header, 0 without; frag_off: that
 * header's third and fourth bytes (offset, M). The addresses as the source saw them
 * fill the slot's last four cells, 16 bytes each, so there are four cells fewer for events.
 * A train's members have the state too, but only its head has the addresses.
 */
#define RDR_ADDR6_CELLS 4

enum rdr_cut {
	RDR_CUT = 1, /* head: the train has been cut */
	RDR_OWN = 2, /* id, ttl, tos of this slot are its own */
	/* The true header, as it was last put on the wire, spells a checksum of zero 0xffff. */
	RDR_MINUS_ZERO = 4,
	/* The packet has left the domain, and the event that says so did not fit into ev[]. */
	RDR_LEFT = 8,
	/* An equal packet, with the same key, came while this one was in flight: not measured. */
	RDR_EQUAL = 16,
	/* A node has handed out copies by several ports, and not all have been seen again. The slot
	 * is kept for them until the timeout, though the packet may be done. */
	RDR_COPIES = 128,
};

/*
 * Key of packets whose bits must not change: DF clear, fragments, TTL too low, and all
 * on an RDR_PF_TRUE link. An ID is unique within its 3-tuple only if the packet may be fragmented
 * (RFC 6864, section 4.1; RFC 8200, section 4.5), and not all senders obey that. So content and
 * ports are part of the key.
 */
struct rdr_key {
	__be32 saddr; /* with a hash of the ports; IPv6: folded to 32 bits, with a fragment's
		       * Identification */
	__be32 daddr;
	__u32 id;   /* IPv4: the ID, as in the header; IPv6: 0 */
	__be16 off; /* fragment offset field, flags removed */
	__u8 proto;
	__u8 form;     /* RDR_KEY_* */
	__u32 content; /* hash of the slot's tags */
};

enum rdr_key_form {
	RDR_KEY_IPV6 = 2, /* IDs do not count up in a train */
};

/* One attached port: what its programs do. Index = port number. */
struct rdr_port {
	__u16 node;
	__u16 flags; /* RDR_PF_* */
	__u32 ifindex;
	__u32 netns_inum; /* of the node: with an ifindex, the key of `devs` */
	__u16 behind;	  /* node without programs that has this tap open (a VM), 0: none */
	__u16 towards;	  /* 1 + node at the other end of the link; 0: several, or not known */
};

enum rdr_port_flag {
	RDR_PF_INTERNAL = 1,   /* what leaves here stays inside the domain */
	RDR_PF_SOURCE_IN = 2,  /* unknown packets entering here are sourced */
	RDR_PF_SOURCE_OUT = 4, /* packets that this node sends are sourced */
	RDR_PF_L3 = 8,	       /* no Ethernet header */
	/* Ports of a closing node: the namespace of a bridge between attached nodes,
	 * which itself is not attached. Nothing in it gets a mark. */
	RDR_PF_BRIDGE_PORT = 16, /* a member: ingress is onto the link, egress off it */
	RDR_PF_BRIDGE = 32,	 /* the bridge device: ingress is off the link, to the host */
	RDR_PF_HEADER = 64,	 /* this node needs all mark bits: --carry header for it alone */
	RDR_PF_TRUE = 128,	 /* no bit is changed on this link: packets are found by key */
	RDR_PF_QUEUE = 256,	 /* has a queue: packets get RDR_EV_DEQUEUE */
	RDR_PF_TUNNEL = 512,	 /* a tunnel whose ends are all in the domain */
	/* This node gave the mark up while packets were in it: a packet that leaves may have
	 * our mark as well as a GUID in the header. */
	RDR_PF_LATE = 1024,
	/* It can carry neither: a packet that comes in is restored, gets no mark and counts as
	 * left; one that goes out is sourced again. Set together with RDR_PF_HEADER. */
	RDR_PF_APART = 2048,
};

#define RDR_PF_CLOSING (RDR_PF_BRIDGE_PORT | RDR_PF_BRIDGE)

/* Which port an interface is: for kfree_skb and for packets that entered by an
 * interface that is not attached. */
struct rdr_dev {
	__u32 netns_inum;
	__u32 ifindex;
};

/*
 * What has changed at a port since user space looked, change.h: CLOCK_MONOTONIC, 0 for
 * nothing. Programs set the times, user space clears those that it has handled.
 */
struct rdr_shift {
	__u64 peer_ns; /* the interface at the other end has moved away: this port is an edge */
	__u64 gone_ns; /* the port's own interface has moved away: it restores, and marks nothing */
};

/* The same for a node that carries the header. */
struct rdr_guard {
	__u64 since_ns; /* it has got an interface that has no programs yet; 0: all have */
	__u32 first;	/* 1 + its first port; the next ones: `siblings` */
	/* For user space only: rules use the mark's bits, and it is not decided what the node
	 * carries instead. */
	__u32 stopped;
};

/* An address that node owns: packets to it end there. For a group, what a port takes:
 * a multicast group that its node is a member of there, or a broadcast address. */
struct rdr_local {
	__u32 node; /* for a group: RDR_LOCAL_PORT | port */
	__be32 addr;
};

/* The same for IPv6. */
struct rdr_local6 {
	__u32 node;
	__u8 addr[16];
};
#define RDR_LOCAL_PORT 0x10000

/* The addresses of a node with few of them, of one IP version. Index = node. If the node owns
 * address a, it is at (a * multiplier) mod 2^32 >> RDR_NODE_SHIFT, so one lookup is enough. IPv6
 * addresses are folded to 32 bits: then the lookup finds out whether the node may own one. */
#define RDR_NODE_ADDRS 16
#define RDR_NODE_SHIFT 28
struct rdr_node {
	__be32 addr[RDR_NODE_ADDRS];
	__u32 multiplier; /* 0: ask `locals`, `locals6` */
	__u32 pad;
};

/* Control page, mapped by user space; one element. */
struct rdr_control {
	__u64 lease_ns; /* sources mark while CLOCK_MONOTONIC is before this */
	__u64 cursor;	/* first position not yet given to any CPU (copy) */
	__u64 start;	/* the first position of all */
	/* Keys of the domain's hashes, hash.h. Programs have them as constants; here they
	 * are for user space, which loads more programs later. */
	__u64 hash[RDR_HASH_KEYS];
	/* Not 0: sources mark no IPv6 packet, because its programs are not all there. */
	__u64 ip6_held;
};

/* What one CPU holds of the ring. */
struct rdr_alloc {
	__u64 next;	  /* positions of the block below this are used, or never will be */
	__u64 end;	  /* end of the block, exclusive; read after next */
	__u64 free_until; /* positions below were reusable when looked at */
	/* What was seen ahead, for lone packets: ring.h. */
	__u64 window; /* the first position of it */
	__u32 free;   /* bit k: the slot at window + k was reusable */
	__u32 seen;   /* how many slots it has */
};

/* Where the next block begins. Its own map: maps with a lock cannot be mapped. */
struct rdr_cursor {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 next;
};

enum rdr_prog {
	/* The fast path, fast.h. What it is not for goes on in the others. */
	RDR_PROG_INGRESS = 0,
	RDR_PROG_EGRESS = 1,
	RDR_PROG_INGRESS6 = 2,
	RDR_PROG_EGRESS6 = 3,
	RDR_PROG_INGRESS4 = 4,
	RDR_PROG_EGRESS4 = 5,
	RDR_PROG_MAX = 6,
};

/* How IPv6 is measured, cfg_ip6. */
enum rdr_ip6 {
	RDR_IP6_OFF = 0,
	RDR_IP6_LABEL = 1, /* flow label and hop limit carry the index */
	RDR_IP6_KEY = 2,   /* by key alone, no bit is changed */
};

/* Counters, per CPU, one u64 each. Numbers are never reused. Each has a line of
 * explanation in pkg/vnet/datapath/counters.go; a test demands it.
 * NM = "not measured": a packet that met a source and was not marked.
 * seen = marked + the sum of all NM. */
enum rdr_counter {
	RDR_C_SEEN = 0,
	RDR_C_MARKED = 1,
	RDR_C_NM_IPV6 = 2,
	RDR_C_NM_MULTICAST = 3,
	RDR_C_NM_MALFORMED = 4,
	RDR_C_NM_NO_SLOT = 5,
	RDR_C_NM_SEGS = 6,
	RDR_C_NM_KEY_IN_FLIGHT = 7,
	RDR_C_NM_KEYS_FULL = 8,
	RDR_C_NM_LEASE = 9,
	RDR_C_NM_WRITE = 10,
	RDR_C_NM_VLAN_DEPTH = 11,
	RDR_C_OTHER_L3 = 12, /* neither IPv4 nor IPv6 (ARP, ...): outside "seen" */
	RDR_C_PASSED = 13,   /* forwarded packet without a backpack, not sourced again */
	RDR_C_FOREIGN = 14,  /* bits look like a GUID, but the packet is not ours */
	RDR_C_STALE = 15,    /* bits name a slot that is too old */
	RDR_C_FOREIGN_MARK = 16,
	RDR_C_MARK_BUSY = 17, /* our mark bits were in use when a packet came in */
	RDR_C_EVENT_FULL = 18,
	RDR_C_TTL_UNDERFLOW = 19,
	RDR_C_QUOTE_RESTORED = 20,
	RDR_C_KEY_LOST = 21, /* inside the domain a packet could not be keyed (NAT, low TTL) */
	RDR_C_LOSS_EVENT = 22,
	RDR_C_LOSS_WITHDRAWN = 23,
	RDR_C_LOCAL_DROP = 24,
	RDR_C_LOSS_IGNORED = 25, /* kfree_skb of a tap's copy and the like */
	RDR_C_SLOTS_SKIPPED = 26,
	RDR_C_RESTORE_FAILED = 27,
	RDR_C_NM_WATCH = 28,
	RDR_C_NM_NEIGHBOUR = 29,
	RDR_C_NM_EXTENSIONS = 30,
	RDR_C_QUEUE_UNSEEN = 31,
	RDR_C_NOT_HERE = 32,	 /* bits or a mark of ours, of a packet that is elsewhere */
	RDR_C_NODE_CHANGED = 33, /* an interface came or went, and a port or node was changed */
	RDR_C_UNSENT = 34,	 /* freed by a node before they were sent, see struct rdr_unsent */
	RDR_C_UNSENT_FULL = 35,	 /* those that are not in the map, because it was full */
	/* A program in a node sent it on with other content: restored. */
	RDR_C_CONTENT_CHANGED = 36,
	/* Found by content: something has set the TTL, or our bits of the DSCP. */
	RDR_C_TTL_SET = 37,
	RDR_C_LATE = 38, /* in flight for longer than the timeout: restored, and not measured */
	RDR_C_MAX = 39,
};

/* A packet whose slot another packet has: late.h, replaced.h. */
struct rdr_spelled_key {
	__u32 index;
	__u32 flow_hash;
	__u32 tag;
	__u32 tag2;
};

/* What restores it. */
struct rdr_spelled {
	__u32 bits; /* its true ID, TTL, TOS, as when it was last put on the wire */
	__u16 len;
	__u8 proto;
	__u8 state; /* RDR_ST_IPV6 */
	__u8 cut;   /* RDR_MINUS_ZERO */
	__u8 turn;  /* turn_of() its slot's position */
	__u16 port; /* where another one has taken its slot; in `spelled`: RDR_NO_PORT */
	__u32 at;   /* when: CLOCK_MONOTONIC >> RDR_COARSE; in `spelled`: 0 */
};

/* About a millisecond. */
#define RDR_COARSE 20

/* Packets of a flow have come to a node with bits of their own that spell an index. */
struct rdr_own_key {
	__u32 index;
	__u32 flow_hash;
	__u32 node;
};

/* Entries of each map. Old ones are evicted (LRU, approximately by age). */
#define RDR_MAX_SPELLED 16384

/*
 * Packets that a node freed before they were sent (its own rules, no answer to ARP): no port
 * has seen them, so they have no backpack. They are counted by node, place and flow, without
 * the source port, which differs with each connection.
 */
struct rdr_unsent_key {
	__u64 saddr[2]; /* as in the packet; IPv4: the low half of the first word */
	__u64 daddr[2];
	__u64 where; /* as the second cell of RDR_EV_LOSS */
	__u16 port;  /* by which they were to be sent */
	__be16 dport;
	__u8 proto;
	__u8 v6;
	__u16 pad;
};

struct rdr_unsent {
	__u64 packets;
	__u64 last_ns; /* CLOCK_MONOTONIC */
};

#define RDR_MAX_UNSENT 1024

#endif
