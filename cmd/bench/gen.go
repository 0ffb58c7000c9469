// SPDX-License-Identifier: Apache-2.0

// Command bench measures what radar costs: ns per packet and hook of the TC programs beside
// a do-nothing program, beside the floor (reading the packet and the clock) and beside the
// hash-map design of the vNetRadar paper; and what people notice, as echoes, throughput, the
// time that commands take, and the paper's figures 7 to 9 (experiments/). All of it in network
// namespaces with real traffic. It needs root.
//
//	go run ./cmd/bench [-list] [-run REGEXP] [-short] [-json FILE]
//		[-object NAME=FILE.o]... [-watch NAME=EXPRESSION]... [-beside NAME=FILE]...
//	go run ./cmd/bench -from FILE [-run REGEXP]
//	go run ./cmd/bench -record FILE | -pages | -recorded
package main

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 Bench ../../bpf/bench/bench.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
