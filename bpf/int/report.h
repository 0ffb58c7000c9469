/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What goes up to user space, which makes telemetry reports of it. */
#ifndef INT_REPORT_H
#define INT_REPORT_H

#include "room.h"

/* The values of a report of congestion, for which no bitmap asks. */
#define BITS_OF_QUEUE_REPORT 0x7d00

/* How long congestion goes on before it is reported again, ns. */
#define QUEUE_REPORT_NS 1000000000ULL

static __always_inline void count_skip(struct int_counters *n, enum int_skip why)
{
	n->skipped[why & (INT_SKIPS - 1)]++;
}

static __always_inline void count_done(struct int_counters *n, enum int_done what)
{
	n->done[what & (INT_DONES - 1)]++;
}

/* Copies the packet's begin into the quote, as it is now: all headers with INT (bytes of it), and
 * cfg_quote bytes more. */
static __always_inline void quote(struct __sk_buff *skb, struct work *w, const struct packet *p,
				  __u32 bytes)
{
	__u32 n = p->data - p->l3 + bytes + cfg_quote;
	__u64 size;

	w->report.quote_len = 0;
	w->report.ip = p->v6 ? 6 : 4;
	if (!cfg_reports)
		return;
	if (n > p->ip_len)
		n = p->ip_len;
	if (n > INT_MAX_QUOTE)
		n = INT_MAX_QUOTE;
	if (!n)
		return;
	size = BOUNDED(n, QUOTE);
	if (!bpf_skb_load_bytes(skb, p->l3, w->quote, size))
		w->report.quote_len = n;
}

/* Whether congestion at this port is to be reported now. */
static __always_inline bool congested(struct int_port *out, __u32 queue, __u64 now)
{
	__u64 last;

	if (!out->congested_at)
		return false;
	if (queue == UNKNOWN || queue < out->congested_at) {
		if (out->queue_report_ns)
			WRITE_ONCE(out->queue_report_ns, 0);
		return false;
	}
	last = READ_ONCE(out->queue_report_ns);
	if (last && now - last < QUEUE_REPORT_NS)
		return false;
	WRITE_ONCE(out->queue_report_ns, now);
	return true;
}

/* Sends the report in w, with the values that bitmap `bits` asks for, as far as they are known.
 * The kernel wakes user space only for the first report after it has read all others. */
static __always_inline void send_report(struct work *w, struct int_counters *n, __u32 bits,
					__u16 domain, enum int_mode mode, __u8 flags)
{
	struct int_report *r = &w->report;
	__u64 size;

	if (!cfg_reports || !flags)
		return;
	if (flags & INT_REPORT_QUEUE)
		bits |= BITS_OF_QUEUE_REPORT;
	r->bits &= bits;
	r->domain = domain;
	r->mode = mode;
	r->flags = flags;
	if (flags & INT_REPORT_FLOW)
		count_done(n, INT_DONE_FLOW);
	if (flags & INT_REPORT_QUEUE)
		count_done(n, INT_DONE_QUEUE);
	size = sizeof(*r) + (r->quote_len & (QUOTE - 1));
	count_done(n,
		   bpf_ringbuf_output(&reports, r, size, 0) ? INT_DONE_REPORT_LOST : INT_DONE_SENT);
}

#endif
