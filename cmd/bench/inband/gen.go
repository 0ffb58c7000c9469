// SPDX-License-Identifier: Apache-2.0

// Package inband has the object of bpf/bench/inband.bpf.c: in-band telemetry as PPTMon does it,
// to compare with.
package inband

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 -type inband_counter Inband ../../../bpf/bench/inband.bpf.c -- -I../../../bpf -I/usr/include/x86_64-linux-gnu
