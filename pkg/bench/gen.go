// SPDX-License-Identifier: Apache-2.0

// Command bench measures what the TC programs cost per packet and hook, on a chain
// h1 - r1 - h2 of network namespaces with real traffic, beside a do-nothing program,
// beside the floor (reading the packet and the clock) and beside the hash-map design
// of the vNetRadar paper. It needs root.
//
//	go run ./pkg/bench [-short] [-json FILE] [-object NAME=FILE.o]... [-watch NAME=EXPRESSION]...
package main

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 Bench ../../bpf/bench/bench.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
