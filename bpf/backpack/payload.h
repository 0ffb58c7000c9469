/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload of packets at chosen ports: what user space reads, and the program's own maps. They
 * belong to the process that captures, so nothing here is a part of the domain's layout (abi.h).
 * docs/design/0045-payload.md.
 */
#ifndef BACKPACK_PAYLOAD_H
#define BACKPACK_PAYLOAD_H

#include "mark.h"
#include "wire.h"

#define RDR_MAX_PAYLOAD 16384 /* bytes of payload; a mask less 1 */
#define RDR_PAYLOAD_HDR 64    /* of the transport header before it: TCP's has 60 at most */

/* How much payload is wanted. */
const volatile __u32 cfg_snaplen = 256;

/* In cb[0], beside the port's number: set by the stubs (pkg/vnet/payload/stub.go). */
enum rdr_payload_where {
	RDR_PAYLOAD_OUT = 0x10000,    /* TC egress, else ingress */
	RDR_PAYLOAD_BEFORE = 0x20000, /* before the domain's program, else behind it */
};

/* What stands in the ring buffer; `captured` bytes follow, from the transport header on. */
struct rdr_payload {
	__u64 pos; /* position of the packet's slot; of a train, of its first segment's */
	__u32 length; /* bytes behind the IP header that the packet has; of a train its first segment */
	__u16 captured; /* bytes that follow */
	__u16 port;
	__u8 out; /* 1: it went out by the port */
	__u8 hdr; /* bytes of transport header before the payload */
	__u16 pad;
	__u32 pad2;
};

enum rdr_payload_count {
	RDR_PC_TAKEN = 0,
	RDR_PC_NO_IDENTITY = 1, /* nothing says which packet of the domain it is, if it is one */
	RDR_PC_RING_FULL = 2,
	RDR_PC_UNREADABLE = 3, /* headers or payload could not be read */
	RDR_PC_MAX = 4,
};

/* Numbers of skbs with payload. */
COUNTERS(payload_counts, RDR_PC_MAX);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24); /* load */
} payloads SEC(".maps");

/* Where an entry is put together: bpf_ringbuf_reserve() takes constant sizes only. */
struct payload_entry {
	struct rdr_payload head;
	__u8 data[RDR_PAYLOAD_HDR + RDR_MAX_PAYLOAD];
};

CPU_PAGE(payload_scratch, struct payload_entry);

/* What the stubs jump to. The process holds it: with the process the kernel empties it, so what is
 * left of a stub does nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} payload_progs SEC(".maps");

static __always_inline void count_payload(enum rdr_payload_count c)
{
	add_count(&payload_counts, c, 1);
}

/* Bytes of transport header before p's payload. Unknown protocols and later fragments are all
 * payload. */
static __always_inline __u32 transport_hdr(const struct packet *p)
{
	if (p->frag & IP_OFFSET)
		return 0;
	switch (p->proto) {
	case IPPROTO_TCP:
		return (__u8)(p->l4_hdr + p->jumbo);
	case IPPROTO_UDP:
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return UDP_HDR; /* ICMP's is as long */
	}
	return 0;
}

/*
 * Whose bits and keys may be found here: those that the domain's program expects (expect_in() of
 * tc.bpf.c, expect_out() of inside.h), or what that program has just put there. What comes by a
 * bridge's member has its bits or key from there. A call makes one verifier state of four.
 */
GLOBAL __u32 expect_here(__u32 flags, __u32 where)
{
	if (!(where & RDR_PAYLOAD_OUT))
		return flags & (RDR_PF_SOURCE_IN | RDR_PF_BRIDGE_PORT) ? EXPECT_LIVE : EXPECT_OURS;
	if (!(where & RDR_PAYLOAD_BEFORE) || flags & RDR_PF_BRIDGE_PORT || carries_header(flags))
		return EXPECT_OURS;
	return EXPECT_COPIES;
}

/* r: what was found on the wire for a packet of that flow. Returns r; 0 if that is another packet,
 * as the domain's program has it. (A call makes one verifier state of many.) */
GLOBAL __u64 sift_here(__u64 r, __u32 expect, __u32 flow)
{
	bool by_bits = r >> FOUND_BY_BITS_SHIFT & 1;

	return expect == EXPECT_LIVE && by_bits && is_other_flow(r, flow) ? 0 : r;
}

/*
 * Finds p's slot. Behind the domain's program a packet that has come in has a mark, and one that
 * leaves by a link has bits or a key. Before that program, it is the reverse.
 */
static __always_inline __u64 found_here(struct __sk_buff *skb, const struct packet *p,
					const struct rdr_port *port, __u32 where, __u64 now)
{
	bool out = where & RDR_PAYLOAD_OUT, before = where & RDR_PAYLOAD_BEFORE;
	__u32 mark = skb->mark, expect;
	struct wire w;
	__u64 r;

	if (out == before && mark & marks_out(port)) {
		r = found_by_mark(mark, p, now);
		if (r)
			return r;
	}
	expect = expect_here(port->flags, where);
	w = pack_wire(p, port->flags, expect);
	r = found_packed(&w, p, port->flags, expect, out && before && skb->ingress_ifindex, now);
	return sift_here(r, expect, flow_hash(p));
}

/* Hands over n bytes from off on. A call makes one verifier state of many. */
GLOBAL int put_payload(struct __sk_buff *skb, __u64 pos, __u64 off_len, __u64 port_hdr)
{
	__u32 off = off_len, length = off_len >> 32, hdr = port_hdr >> 32 & 0x3f, zero = 0;
	struct payload_entry *e = bpf_map_lookup_elem(&payload_scratch, &zero);
	__u64 n = length, size;

	if (!e)
		return 0;
	if (n > hdr + cfg_snaplen)
		n = hdr + cfg_snaplen;
	/* The verifier must see the bounds of the very value that is used. 5.10 learns nothing of the
	 * lower one from n != 0. */
	n--;
	asm volatile("" : "+r"(n));
	if (n >= sizeof(e->data))
		return 0;
	n++;
	if (bpf_skb_load_bytes(skb, off, e->data, n)) {
		count_payload(RDR_PC_UNREADABLE);
		return 0;
	}
	e->head = (struct rdr_payload){
		.pos = pos,
		.length = length,
		.captured = n,
		.port = port_hdr,
		.out = !!(port_hdr & RDR_PAYLOAD_OUT),
		.hdr = hdr,
	};
	size = sizeof(e->head) + n;
	asm volatile("" : "+r"(size));
	if (size > sizeof(*e))
		return 0;
	/* User space looks by itself: a wake-up costs more than all of this. */
	count_payload(bpf_ringbuf_output(&payloads, e, size, BPF_RB_NO_WAKEUP) ? RDR_PC_RING_FULL :
										 RDR_PC_TAKEN);
	return 0;
}

/* Takes the payload of one skb, an IPv6 packet if v6. */
static __always_inline void take_payload(struct __sk_buff *skb, const struct rdr_port *port,
					 struct packet *p, __u32 where)
{
	__u32 length, hdr;
	struct rdr_slot *s;
	__u64 r;

	if ((p->v6 ? parse_ipv6(skb, p) : parse_ipv4(skb, p)) !=
	    (p->v6 ? PARSE_IPV6 : PARSE_IPV4)) {
		count_payload(RDR_PC_UNREADABLE);
		return;
	}
	parse_l4(skb, p);
	hdr = transport_hdr(p);
	length = p->l3 + p->len + p->jumbo - p->l4;
	if (length <= hdr || length > p->len)
		return;
	if (p->gso_size && length > hdr + p->gso_size)
		length = hdr + p->gso_size;
	r = found_here(skb, p, port, where, bpf_ktime_get_ns());
	s = slot_at((__u32)r & (cfg_slots - 1));
	if (!(r & FOUND) || !s) {
		count_payload(RDR_PC_NO_IDENTITY);
		return;
	}
	put_payload(skb, s->pos, p->l4 | (__u64)length << 32,
		    (where & (0xffff | RDR_PAYLOAD_OUT)) | (__u64)hdr << 32);
}

#endif
