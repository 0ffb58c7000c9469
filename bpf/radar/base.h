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

#endif
