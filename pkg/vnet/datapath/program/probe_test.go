// SPDX-License-Identifier: Apache-2.0

package program

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// nobody is a user without any right.
const nobody = 65534

// checksEnv makes the test binary print Checks instead of testing.
const checksEnv = "RADAR_TEST_PRINT_CHECKS"

func TestMain(m *testing.M) {
	if os.Getenv(checksEnv) != "" {
		if err := json.NewEncoder(os.Stdout).Encode(Checks()); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func byName(t *testing.T, checks []Check) map[string]Check {
	t.Helper()
	m := make(map[string]Check)
	for _, c := range checks {
		if c.Name == "" || c.Detail == "" || m[c.Name].Name != "" {
			t.Errorf("check %+v", c)
		}
		if (c.Level != OK) != (c.Fix != "") {
			t.Errorf("check %s is %s and says to change %q", c.Name, c.Level, c.Fix)
		}
		m[c.Name] = c
	}
	return m
}

func TestProbe(t *testing.T) {
	need.AsRoot(t)
	f := Probe()
	if f.Kernel == "" || f.CPUs < 1 || !f.Tested {
		t.Errorf("features %+v", f)
	}
	checks := byName(t, f.checks())
	for _, name := range []string{"kernel", "rights", "hook", "losses", "bpffs", "memlock"} {
		if c := checks[name]; c.Level == Fail || c.Name == "" {
			t.Errorf("check %s: %+v", name, c)
		}
	}
	// TCX came with Linux 6.6, reasons with 5.17.
	if f.TCX == kernel.Older(f.Kernel, 6, 6) {
		t.Errorf("kernel %s: TCX is %v", f.Kernel, f.TCX)
	}
	if f.CoarseClock == kernel.Older(f.Kernel, 5, 11) {
		t.Errorf("kernel %s: coarse clock is %v", f.Kernel, f.CoarseClock)
	}
	if f.BTF && f.Iterators == kernel.Older(f.Kernel, 6, 4) {
		t.Errorf("kernel %s: iterators are %v", f.Kernel, f.Iterators)
	}
	if f.BTF && f.DropReason == kernel.Older(f.Kernel, 5, 17) {
		t.Errorf("kernel %s: drop reason is %v", f.Kernel, f.DropReason)
	}
	if f.BTF && !f.TCRedirects {
		t.Errorf("kernel %s: redirects cannot be seen", f.Kernel)
	}
	if !f.Clsact {
		t.Error("no clsact: the tests of this package need sch_ingress and cls_bpf")
	}
}

// A user without rights is told which are missing, and nothing fails on the way.
func TestChecksUnprivileged(t *testing.T) {
	need.AsRoot(t) // it gives rights up
	// The binary lies where only we can read.
	dir, err := os.MkdirTemp("/tmp", "rdr-checks")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe := copyFile(t, "/proc/self/exe", filepath.Join(dir, "test"))
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), checksEnv+"=1")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("checks as nobody: %v", err)
	}
	var all []Check
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	checks := byName(t, all)
	rights := checks["rights"]
	if rights.Level != Fail || !strings.Contains(rights.Detail, "CAP_NET_ADMIN") || !strings.Contains(rights.Detail, "CAP_SYS_ADMIN") {
		t.Errorf("rights: %+v", rights)
	}
	for _, name := range []string{"hook", "losses"} {
		if c := checks[name]; c.Level != Warn || !strings.Contains(c.Fix, "root") {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func copyFile(t *testing.T, from, to string) string {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestChecksOfOtherKernels(t *testing.T) {
	all := uint64(1)<<41 - 1
	for _, c := range []struct {
		what  string
		f     Features
		name  string
		level Level
		want  string
	}{
		{"too old", Features{Kernel: "5.4.0-150-generic", Caps: all}, "kernel", Fail, "5.10"},
		{"oldest", Features{Kernel: "5.10.0-28-amd64", Caps: all}, "kernel", OK, ""},
		{"clsact only", Features{Kernel: "6.1.0", Tested: true, Clsact: true}, "hook", OK, ""},
		{"no hook", Features{Kernel: "6.1.0", Tested: true}, "hook", Fail, "modprobe"},
		{"no BTF", Features{Tested: true}, "losses", Warn, "CONFIG_DEBUG_INFO_BTF"},
		{"no hook for drops", Features{BTF: true, Tested: true}, "losses", Warn, "BPF"},
		{"no reasons", Features{BTF: true, Tested: true, DropHook: true}, "losses", Warn, "5.17"},
		{"no sight of the skb", Features{Tested: true}, "mirred", Warn, "CONFIG_DEBUG_INFO_BTF"},
		{"no broadcast", Features{Caps: all &^ (1 << unix.CAP_NET_BROADCAST)}, "rights", Fail, "root"},
		{"no ptrace", Features{Caps: all &^ (1 << unix.CAP_SYS_PTRACE)}, "rights", Warn, "root"},
		{"no kallsyms", Features{}, "symbols", Warn, "kptr_restrict"},
	} {
		i := slices.IndexFunc(c.f.checks(), func(x Check) bool { return x.Name == c.name })
		if got := c.f.checks()[i]; got.Level != c.level || !strings.Contains(got.Fix, c.want) {
			t.Errorf("%s: %+v; want %s with %q", c.what, got, c.level, c.want)
		}
	}
}
