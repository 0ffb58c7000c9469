/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * INT in a packet (INT 2.1 and 1.0: shim for TCP and UDP, INT-MD and INT-MX headers). Whatever a
 * header says was written by somebody else: no length is used before it is held against the packet.
 */
#ifndef INT_FOUND_H
#define INT_FOUND_H

#include "packet.h"

#define SHIM 4
#define HEADER 12  /* of INT 2.1; the first two words of three are those that a transit reads */
#define HEADER10 8 /* of INT 1.0 */
#define LEAST_INT (SHIM + HEADER10)

#define TYPE_MD 1
#define TYPE_MX 3
#define NPT_DSCP 0
#define NPT_PORT 1 /* the port of UDP marks; the shim has the original one */
#define NPT_UDP 2  /* the source put a UDP header in front; the shim has the IP protocol */

/* Bits in word 0 of an INT-MD header. */
#define MD_DISCARD (1 << 27)
#define MD_EXCEEDED (1 << 26)
#define MD_MTU (1 << 25)
#define MD10_EXCEEDED (1 << 24)
#define MD10_MTU (1 << 23)
#define MD_HOP_ML(w) ((w) >> 8 & 0x1f)
#define MD_REMAINING(w) ((w) & 0xff)

struct found {
	__u32 shim; /* the words, of the machine's byte order */
	__u32 first;
	__u32 bytes; /* of all INT, the shim among it */
	__u16 instructions;
	__u16 domain;
	__u16 ds; /* the domain's own instructions */
	__u8 mode;
	__u8 words; /* Hop ML */
	__u8 npt;
};

#define QUOTE 2048   /* more than INT_MAX_QUOTE */
#define MOVED 4096   /* bytes of payload that can be moved at a time */
#define MAX_HEAD 128 /* IPv4's options, TCP with options, shim and header of INT */

/* What does not fit the stack. */
struct work {
	struct packet packet;
	struct packet quoted; /* by an ICMP error */
	struct found found;
	struct int_entry entry;
	/* What lies between the IP header and INT. */
	__u8 block[MAX_HEAD];
	struct int_report report;
	__u8 quote[QUOTE]; /* right behind the report: both go up in one piece */
	__u8 moved[MOVED];
};

CPU_PAGE(works, struct work);

static __always_inline __u32 bits_of(__u32 i)
{
	i = i - (i >> 1 & 0x5555);
	i = (i & 0x3333) + (i >> 2 & 0x3333);
	i = (i + (i >> 4)) & 0x0f0f;
	return (i + (i >> 8)) & 0x1f;
}

/* Words that a hop adds for a bitmap. */
static __always_inline __u32 words_of(__u32 i, bool v10)
{
	return bits_of(i) + (i >> 9 & 1) + (v10 ? 0 : (i >> 10 & 1) + (i >> 11 & 1));
}

static __always_inline bool dscp_marks(const struct packet *p)
{
	return cfg_dscp_mask && !((p->dscp ^ cfg_dscp) & cfg_dscp_mask);
}

static __always_inline bool port_marks(const struct packet *p)
{
	return cfg_port && p->proto == IPPROTO_UDP && p->dport == bpf_htons(cfg_port);
}

/* Whether the headers in *f agree with each other, with their mark, and with the packet, which has
 * `size` bytes of payload. */
static __always_inline bool is_whole(const struct packet *p, const struct found *f, __u32 size)
{
	__u32 header = f->mode == INT_MODE_MD10 ? HEADER10 : HEADER, words;

	if (f->npt == NPT_DSCP ? !dscp_marks(p) : !port_marks(p))
		return false;
	if (f->bytes < SHIM + header || f->bytes > size)
		return false;
	words = (f->bytes - SHIM - header) / 4;
	if (f->mode == INT_MODE_MX)
		return !words || (f->ds && f->domain);
	if (!f->words)
		return false;
	if (f->ds) /* of these words a node knows no number but Hop ML */
		return f->domain && f->words >= words_of(f->instructions, false);
	return f->words == words_of(f->instructions, f->mode == INT_MODE_MD10) &&
	       words % f->words == 0;
}

/*
 * Reads the first four words of a packet's payload of `size` bytes, of the network's byte order (the
 * last is 0 where there are three). Whether they are INT; *f is filled then.
 */
static __always_inline bool read_int(const struct packet *p, struct found *f, __u32 size,
				     const __be32 word[4])
{
	__u32 shim = bpf_ntohl(word[0]), first = bpf_ntohl(word[1]), third = bpf_ntohl(word[2]);

	f->mode = INT_MODE_NONE;
	f->shim = shim;
	f->first = first;
	f->instructions = third >> 16;
	f->domain = third;
	f->ds = size >= SHIM + HEADER ? bpf_ntohl(word[3]) >> 16 : 0;
	if (first >> 28 == 2) {
		f->mode = shim >> 28 == TYPE_MD ? INT_MODE_MD :
			  shim >> 28 == TYPE_MX ? INT_MODE_MX :
						  INT_MODE_NONE;
		f->npt = shim >> 26 & 3;
		f->words = MD_HOP_ML(first);
		f->bytes = SHIM + (shim >> 16 & 0xff) * 4;
		if (f->npt > NPT_UDP)
			return false;
	} else if (first >> 28 == 1 && shim >> 16 == TYPE_MD << 8) {
		f->mode = INT_MODE_MD10;
		f->npt = NPT_DSCP;
		f->words = MD_HOP_ML(first);
		f->bytes = (shim >> 8 & 0xff) * 4;
		f->domain = f->ds = 0;
	}
	return f->mode != INT_MODE_NONE && is_whole(p, f, size);
}

/* Reads INT that begins where the payload does. Whether there is any; *f is filled then. */
static __always_inline bool find(struct __sk_buff *skb, const struct packet *p, struct found *f)
{
	__u32 size = p->l4_len - (p->data - p->l4);
	__be32 word[4] = {}, *w;
	void *data, *end;

	if (size < LEAST_INT)
		return false;
	pull(skb, p->data + SHIM + HEADER);
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	w = data + (p->data & 0xff); /* 142 at most; for the verifier */
	if ((void *)(w + 3) > end)
		return false;
	word[0] = w[0];
	word[1] = w[1];
	word[2] = w[2];
	if ((void *)(w + 4) <= end)
		word[3] = w[3];
	return read_int(p, f, size, word);
}

/* Whether a packet bears the mark of this domain. */
static __always_inline bool is_marked(const struct packet *p)
{
	return dscp_marks(p) || port_marks(p);
}

/*
 * INT of others, which came from outside, must not be taken for ours: nodes would add to it, and the
 * sink would cut it off. So it gets a cover: a header of INT in front that lets no node add anything.
 * The sink takes that off, and the packet is as it was.
 */
static __always_inline bool is_cover(const struct found *f)
{
	return f->mode == INT_MODE_MD && f->bytes == SHIM + HEADER && !MD_REMAINING(f->first);
}

#endif
