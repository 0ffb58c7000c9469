// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The programs of radar dut: they stamp the test packets of one run before and after a device, and
 * take them out behind it, or send them back (docs/design/0033-dut.md).
 *
 * A test packet is known by the mark in its payload, and by nothing that a device may change.
 * Whatever is not one passes untouched.
 */
#include "abi.h"
#include "lib/parse.h"

#include <linux/pkt_cls.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dut_stamps);
} stamps SEC(".maps");

const volatile __u32 cfg_run = 0;

/* User space writes and reads these while the programs run. */
struct dut_trial now = {};
struct dut_tally tally = {};

/* A test packet. */
struct test {
	struct packet headers;
	struct dut_mark mark;
	__u32 payload;
};

static __always_inline void count(__u64 *n)
{
	__sync_fetch_and_add(n, 1);
}

/* Reads a UDP header, and behind it the mark of this run. What the header says of its length is the
 * device's to change. */
static __always_inline bool parse_mark(struct cursor *c, struct test *t)
{
	struct udphdr *udp = c->at;
	struct dut_mark *mark;

	if (!step(c, sizeof(*udp)))
		return false;
	mark = c->at;
	if (!step(c, sizeof(*mark)))
		return false;
	t->payload = (__u32)bpf_ntohs(udp->len) - sizeof(*udp);
	t->mark = *mark;
	return mark->magic == bpf_htonl(DUT_MAGIC) && mark->run == bpf_htonl(cfg_run);
}

/* Whether this is a test packet of this run. */
static __always_inline bool is_test(struct __sk_buff *skb, struct test *t)
{
	enum parsed parsed;
	struct cursor c;

	pull(skb, MAX_HEADERS + sizeof(t->mark));
	c = skb_cursor(skb, 0);
	parsed = parse_ip(&c, &t->headers, NULL);
	/* A device may have put extension headers in. */
	if (parsed == PARSED_EXTENSION)
		parsed = skip_extensions(skb, &c, &t->headers);
	return !parsed && t->headers.proto == IPPROTO_UDP && parse_mark(&c, t);
}

/* Writes the time at which a test packet was at a point. */
static __always_inline void stamp(const struct test *t, enum dut_point point, __u64 at_ns)
{
	__u32 seq = bpf_ntohl(t->mark.seq);
	struct dut_stamps *s;

	if (t->mark.trial != bpf_htonl(now.trial)) {
		count(&tally.late);
		return;
	}
	s = bpf_map_lookup_elem(&stamps, &seq);
	if (!s || seq >= now.packets) {
		count(&tally.stray);
		return;
	}
	if (t->payload != now.payload)
		count(&tally.resized);
	__sync_fetch_and_add(&s->seen[point], 1);
	/* Two copies that come at once on two CPUs have the same time, but for some ns. */
	if (s->at_ns[point]) {
		count(&tally.again[point]);
		return;
	}
	s->at_ns[point] = at_ns;
	count(&tally.first[point]);
}

/* At egress, last of all programs: the clock is read as late as can be. */
static __always_inline int leave(struct __sk_buff *skb, enum dut_point point)
{
	struct test t;

	if (is_test(skb, &t))
		stamp(&t, point, bpf_ktime_get_ns());
	return TC_ACT_UNSPEC;
}

/* At ingress, first of all programs: the clock is read before the packet is. */
static __always_inline int enter(struct __sk_buff *skb, enum dut_point point)
{
	__u64 at_ns = bpf_ktime_get_ns();
	struct test t;

	if (is_test(skb, &t))
		stamp(&t, point, at_ns);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int dut_sent(struct __sk_buff *skb)
{
	return leave(skb, DUT_POINT_SENT);
}

SEC("tc")
int dut_received(struct __sk_buff *skb)
{
	return enter(skb, DUT_POINT_RECEIVED);
}

SEC("tc")
int dut_returned(struct __sk_buff *skb)
{
	return leave(skb, DUT_POINT_RETURNED);
}

SEC("tc")
int dut_back(struct __sk_buff *skb)
{
	return enter(skb, DUT_POINT_BACK);
}

/* At ingress, last of all programs: here a test packet ends. */
SEC("tc")
int dut_end(struct __sk_buff *skb)
{
	struct test t;

	return is_test(skb, &t) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* Exchanges two neighbouring fields of n bytes each; what sums them does not change. */
static __always_inline int exchange(struct __sk_buff *skb, __u32 off, const __u32 n)
{
	__u8 was[32], is[32];

	if (bpf_skb_load_bytes(skb, off, was, 2 * n))
		return -1;
	__builtin_memcpy(is, was + n, n);
	__builtin_memcpy(is + n, was, n);
	return bpf_skb_store_bytes(skb, off, is, 2 * n, 0);
}

/* At ingress, last of all programs: a test packet goes back to where it came from. */
SEC("tc")
int dut_return(struct __sk_buff *skb)
{
	struct test t;
	int failed;

	if (!is_test(skb, &t))
		return TC_ACT_UNSPEC;
	failed = exchange(skb, 0, ETH_ALEN);
	if (t.headers.v6)
		failed |= exchange(skb, t.headers.l3 + offsetof(struct ipv6hdr, saddr), 16);
	else
		failed |= exchange(skb, t.headers.l3 + offsetof(struct iphdr, saddr), 4);
	failed |= exchange(skb, t.headers.l4 + offsetof(struct udphdr, source), 2);
	if (failed) {
		count(&tally.stuck);
		return TC_ACT_SHOT;
	}
	return bpf_redirect(skb->ifindex, 0);
}

/* For bpf2go, which finds only types that something is of. */
const struct dut_mark *abi_mark __attribute__((unused));
const enum dut_magic *abi_magic __attribute__((unused));
const enum dut_point *abi_point __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
