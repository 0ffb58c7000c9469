/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What every program includes first. */
#ifndef RADAR_BASE_H
#define RADAR_BASE_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "abi.h"

/*
 * A function that the verifier checks once, by itself, instead of once for every
 * state of every caller. 5.10 allows such functions a context and scalars only.
 */
#define GLOBAL __attribute__((noinline))

#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))

#endif
