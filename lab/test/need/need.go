// SPDX-License-Identifier: Apache-2.0

// Package need says what a test cannot do without, and in which tier it runs.
//
// Two variables of the environment decide:
//
//   - RADAR_TIER is "check" (no root, no kernel: make check), "test" (the default: make
//     test and CI) or "nightly" (make nightly, which also checks times).
//   - RADAR_REQUIRE lists needs, separated by spaces or commas. A test that lacks one of
//     these fails. A test that lacks another need is skipped and says why.
//
// Asking also says what a pass depends on. go test keeps passes, and compares the test's program, the variables that it
// reads and the files of this module that it opens; not what programs that it starts read, nor the machine. For these stand
// variables with checksums (lab/tools/state.sh, set by lab/tools/test.sh), which are read here: RADAR_MACHINE of the kernel
// and of what is installed, read whenever a test asks for anything; RADAR_TREE of all files of this repository, read by
// [Tree]; RADAR_SOURCES of those that radar is built of, read by [Radar].
//
// A word that this package does not know, in either variable, fails every test that asks:
// a typing error must not switch a check off.
package need

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Need is something that a machine may lack.
type Need string

// The needs that RADAR_REQUIRE can name.
const (
	// Root: the test makes network namespaces or loads BPF programs.
	Root Need = "root"
	// Tools: programs of other packages, such as tcpdump.
	Tools Need = "tools"
	// Docker: an engine that answers, or that the test can start.
	Docker Need = "docker"
	// Kernel: a feature that this machine's kernel may have been built without. No
	// tier requires it: lab/test/kernels runs such tests on kernels that have it.
	Kernel Need = "kernel"
	// Pcap: a build with libpcap, for filter expressions.
	Pcap Need = "pcap"
)

var all = []Need{Root, Tools, Docker, Kernel, Pcap}

// Tiers that RADAR_TIER can name.
const (
	check   = "check"
	test    = "test"
	nightly = "nightly"
)

// AsRoot ends the test unless it runs as root. In the tier "check" it ends for root,
// too: that tier gives the same answer to every user.
func AsRoot(t testing.TB) {
	t.Helper()
	switch {
	case tier(t) == check:
		t.Skip("needs root: make test runs it")
	case os.Geteuid() != 0:
		Lack(t, Root, "run it as root, as make test does")
	}
}

// Programs ends the test unless these programs are there. Each is "name", or
// "name:package" where Debian's package has another name.
func Programs(t testing.TB, programs ...string) {
	t.Helper()
	dependsOn("RADAR_MACHINE")
	var packages []string
	for _, p := range programs {
		name, pkg, named := strings.Cut(p, ":")
		if !named {
			pkg = name
		}
		if _, err := exec.LookPath(name); err != nil && !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	if len(packages) > 0 {
		Lack(t, Tools, "apt-get install "+strings.Join(packages, " "))
	}
}

// Tree says that the test starts a program that reads files of this repository, such as a script or a compiler: after any
// change of the tree it runs again.
func Tree(t testing.TB) {
	t.Helper()
	dependsOn("RADAR_TREE")
}

// Radar says that the test runs a radar that was built of this tree: after any change but of its pages it runs again.
func Radar(t testing.TB) {
	t.Helper()
	dependsOn("RADAR_SOURCES")
}

// dependsOn reads a variable, so that go test compares it before it takes an earlier pass for this one.
func dependsOn(variable string) { _ = os.Getenv(variable) }

// Nightly ends the test outside the tier "nightly": it is one of many of its kind, or
// takes long, and another test of the tier "test" fails for the same faults.
func Nightly(t testing.TB) {
	t.Helper()
	if !IsNightly(t) {
		t.Skip("runs in make nightly (RADAR_TIER=nightly)")
	}
}

// IsNightly reports whether everything runs, and whether times are checked. In other
// tiers no result may depend on how long something took: the machine may be busy.
func IsNightly(t testing.TB) bool {
	t.Helper()
	return tier(t) == nightly
}

// IsCheck reports whether only what needs neither root, nor a kernel, nor a build of radar runs.
func IsCheck(t testing.TB) bool {
	t.Helper()
	return tier(t) == check
}

// Lack ends the test, because the machine has not what it needs: by a failure if
// RADAR_REQUIRE names this need, else as skipped. what says what to do about it.
func Lack(t testing.TB, need Need, what string) {
	t.Helper()
	required, err := required()
	if err == nil && !slices.Contains(all, need) {
		err = fmt.Errorf("package need knows no %q", need)
	}
	switch {
	case err != nil:
		t.Fatal(err)
	case slices.Contains(required, need):
		t.Fatalf("needs %s, which RADAR_REQUIRE asks for: %s", need, what)
	default:
		t.Skipf("needs %s: %s", need, what)
	}
}

func required() (list []Need, err error) {
	dependsOn("RADAR_MACHINE")
	words := strings.FieldsFunc(os.Getenv("RADAR_REQUIRE"), func(r rune) bool { return r == ' ' || r == ',' })
	for _, w := range words {
		if !slices.Contains(all, Need(w)) {
			return nil, fmt.Errorf("RADAR_REQUIRE: no need %q: use %v", w, all)
		}
		list = append(list, Need(w))
	}
	return list, nil
}

func tier(t testing.TB) string {
	t.Helper()
	dependsOn("RADAR_MACHINE")
	switch name := os.Getenv("RADAR_TIER"); name {
	case check, test, nightly:
		return name
	case "":
		return test
	default:
		t.Fatalf("RADAR_TIER: no tier %q: use %s, %s or %s", name, check, test, nightly)
		return ""
	}
}
