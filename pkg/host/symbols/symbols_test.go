// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/vnetradar/radar/lab/test/need"
)

const someSymbols = `ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t ip_forward
ffffffff81000200 t ip_forward.cold
ffffffff81000300 T kfree_skb_list_reason
ffffffff81000400 t tcp_v4_rcv.isra.0
ffffffff81000500 D jiffies
ffffffff81000600 W arch_call
ffffffff81000700 T _etext
not a symbol
ffffffffc0000000 t nf_tables_func	[nf_tables]
ffffffffc0200000 t bpf_prog_1234_radar	[bpf]
ffffffffc0400000 t not_read
`

func TestFunctions(t *testing.T) {
	f, err := parseFunctions(strings.NewReader(someSymbols))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		addr uint64
		want string
	}{
		{0xffffffff80ffffff, ""},                      // before all
		{0xffffffff81000000, "_stext"},                // the first of two names
		{0xffffffff81000100, "ip_forward"},            // its first byte
		{0xffffffff810001ff, "ip_forward"},            // its last
		{0xffffffff81000250, "ip_forward"},            // a piece that the compiler moved away
		{0xffffffff81000310, "kfree_skb_list_reason"}, // within
		{0xffffffff810004ff, "tcp_v4_rcv"},            // a variant
		{0xffffffff81000510, ""},                      // data
		{0xffffffff81000610, "arch_call"},             // weak
		{0xffffffff81000710, ""},                      // behind the kernel's text
		{0xffffffffc0000020, "nf_tables_func"},        // a module
		{0xffffffffc0200020, ""},                      // a BPF program
		{0xffffffffc0400020, ""},                      // behind the first of them
		{0, ""},
	} {
		if got := f.find(tc.addr); got != tc.want {
			t.Errorf("%#x is in %q, want %q", tc.addr, got, tc.want)
		}
	}
}

func TestHiddenAddresses(t *testing.T) {
	_, err := parseFunctions(strings.NewReader("0000000000000000 T _stext\n0000000000000000 t ip_forward\n"))
	if !errors.Is(err, ErrHidden) {
		t.Errorf("%v, want ErrHidden", err)
	}
}

// enums makes the BTF of a kernel.
func enums(t *testing.T, types ...btf.Type) *btf.Spec {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestReasons(t *testing.T) {
	core := &btf.Enum{Name: "skb_drop_reason", Size: 4, Values: []btf.EnumValue{
		{Name: "SKB_NOT_DROPPED_YET", Value: 0}, {Name: "SKB_CONSUMED", Value: 1},
		{Name: "SKB_DROP_REASON_NOT_SPECIFIED", Value: 2}, {Name: "SKB_DROP_REASON_QDISC_DROP", Value: 57},
		{Name: "SKB_DROP_REASON_MAX", Value: 128}, {Name: "SKB_DROP_REASON_SUBSYS_MASK", Value: 0xffff0000},
	}}
	ovs := &btf.Enum{Name: "ovs_drop_reason", Size: 4, Values: []btf.EnumValue{
		{Name: "__OVS_DROP_REASON", Value: 0x30000}, {Name: "OVS_DROP_LAST_ACTION", Value: 0x30001},
	}}
	mac := &btf.Enum{Name: "mac80211_drop_reason", Size: 4, Values: []btf.EnumValue{
		{Name: "RX_CONTINUE", Value: 1}, {Name: "RX_DROP_MONITOR", Value: 2}, {Name: "___RX_DROP_UNUSABLE", Value: 0x10000}, {Name: "RX_DROP_U_MIC_FAIL", Value: 0x10001},
	}}
	reasons := parseReasons(enums(t, core, ovs, mac))
	for code, want := range map[uint32]string{
		0: "", 1: "", 2: "NOT_SPECIFIED", 57: "QDISC_DROP", 128: "", 0xffff0000: "", 3: "",
		0x30001: "OVS_DROP_LAST_ACTION", 0x10000: "", 0x10001: "RX_DROP_U_MIC_FAIL",
	} {
		if got := reasons[code]; got != want {
			t.Errorf("reason %#x is %q, want %q", code, got, want)
		}
	}
	if got := parseReasons(enums(t, &btf.Int{Name: "int", Size: 4})); len(got) != 0 {
		t.Errorf("a kernel without reasons has %v", got)
	}
}

// The running kernel, against independent tools: bpftool for the reasons, and a
// plain search of the file for a function.
func TestRunningKernel(t *testing.T) {
	need.AsRoot(t)
	need.Programs(t, "bpftool")
	table := Load()
	if table.Function(0) != "" || table.Reason(0) != "" {
		t.Error("0 has a name")
	}
	if err := table.Err(); err != nil {
		t.Fatalf("names of the running kernel: %v", err)
	}
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[2] != "__dev_queue_xmit" && f[2] != "ip_forward" && f[2] != "kfree_skb_list_reason" {
			continue
		}
		addr, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Function(addr + 5); got != f[2] {
			t.Errorf("%#x is in %q, want %s", addr+5, got, f[2])
		}
		checked++
	}
	if checked == 0 {
		t.Error("the kernel lacks all functions asked for")
	}

	out, err := exec.Command("bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "c").Output()
	if err != nil {
		t.Fatalf("bpftool: %v", err)
	}
	_, enum, ok := strings.Cut(string(out), "enum skb_drop_reason {")
	if !ok { // before Linux 5.17
		if got := table.Reason(2); got != "" {
			t.Errorf("the kernel has no drop reasons, but 2 is %q", got)
		}
		return
	}
	enum, _, _ = strings.Cut(enum, "}")
	checked = 0
	for line := range strings.Lines(enum) {
		name, value, ok := strings.Cut(strings.Trim(strings.TrimSpace(line), ","), " = ")
		name, isReason := strings.CutPrefix(name, "SKB_DROP_REASON_")
		if !ok || !isReason || name == "MAX" || name == "SUBSYS_MASK" {
			continue
		}
		code, err := strconv.ParseUint(value, 0, 32)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Reason(uint32(code)); got != name {
			t.Errorf("reason %d is %q, want %s", code, got, name)
		}
		checked++
	}
	if checked < 10 {
		t.Errorf("bpftool names only %d reasons", checked)
	}
}

func BenchmarkLoad(b *testing.B) {
	need.AsRoot(b)
	for b.Loop() {
		table := Load()
		table.Function(0)
		table.Reason(0)
		if err := table.Err(); err != nil {
			b.Fatal(err)
		}
	}
}

// What fails is reported once a name was asked for, and nothing is read before.
func TestErrIsOfWhatWasAsked(t *testing.T) {
	table, reads := Load(), 0
	table.functions.read = func() (*functions, error) {
		reads++
		return nil, ErrHidden
	}
	table.reasons.read = func() (map[uint32]string, error) { return map[uint32]string{2: "NOT_SPECIFIED"}, nil }
	if table.Reason(2) != "NOT_SPECIFIED" || table.Err() != nil || reads > 0 {
		t.Errorf("before a function was asked for: error %v, %d reads", table.Err(), reads)
	}
	for range 2 {
		if name := table.Function(1); name != "" || !errors.Is(table.Err(), ErrHidden) || reads != 1 {
			t.Errorf("function %q, error %v, %d reads", name, table.Err(), reads)
		}
	}
}
