// SPDX-License-Identifier: Apache-2.0

// Package bpfobj holds the BPF objects built from bpf/ and the Go types made
// from their BTF, and a table of them (Objects). It has no logic: pkg/vnet/datapath/program and pkg/telemetry/xdp
// load, pkg/vnet/backpack reads. pkg/dut loads and reads its own.
//
// bpf2go puts the object's name before names that have their system's prefix already (IntIntPort,
// IntIntPortFlagINT_PORT_SOURCE). The last line below takes that away: types are IntPort, and constants have the name that
// they have in C.
package bpfobj

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 -type rdr_slot -type rdr_port -type rdr_dev -type rdr_shift -type rdr_guard -type rdr_local -type rdr_local6 -type rdr_node -type rdr_key -type rdr_control -type rdr_cursor -type rdr_alloc -type rdr_event -type rdr_event_flag -type rdr_state -type rdr_cut -type rdr_slot_flag -type rdr_port_flag -type rdr_prog -type rdr_ip6 -type rdr_counter Tc ../../bpf/backpack/tc.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 Trace ../../bpf/backpack/trace.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 Deliver ../../bpf/backpack/deliver.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 Change ../../bpf/backpack/change.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 -type rdr_payload -type rdr_payload_where -type rdr_payload_count Payload ../../bpf/backpack/payload.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 -type collect_band -type collect_band_flag -type collect_shared_band -type collect_template_head -type collect_small -type collect_large -type collect_up -type collect_allowed Collect ../../bpf/collect/collect.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 -type dut_stamps -type dut_point -type dut_mark -type dut_magic Dut ../../bpf/dut/dut.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -target amd64 -type int_port -type int_port_flag -type int_mode -type int_control -type int_skip -type int_done -type int_counters -type int_report -type int_report_flag Int ../../bpf/int/node.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate sh -c "sed -Ei -e 's/\\b([A-Z][a-z]+)\\1[A-Za-z]*[a-z]([A-Z]+_[A-Z0-9_]+)\\b/\\2/g' -e 's/\\b([A-Z][a-z]+)\\1([A-Z])/\\1\\2/g' *_x86_bpfel.go && gofmt -w *_x86_bpfel.go"
