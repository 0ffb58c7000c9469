// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/lab"
)

// labName is a lab name of this test run's own; the lab is removed in the end.
func labName(t *testing.T) string {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "ip:iproute2", "tc:iproute2", "nft:nftables")
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	name := fmt.Sprintf("rdr%dl", os.Getpid())
	nstest.Cleanup(t, func() {
		labs, err := lab.List()
		if err != nil {
			t.Error(err)
		}
		for _, l := range labs {
			if err := l.Down(); err != nil {
				t.Error(err)
			}
		}
	})
	return name
}

func TestLab(t *testing.T) {
	name := labName(t)
	out := clitest.Must(t, "lab", "up", "chain", "--set", "N=1", "--name", name)
	attach := "  radar attach -d --lab " + name + "\n"
	if !strings.HasPrefix(out, "Lab "+name+" is up: 3 machines, 2 links, ") || !strings.HasSuffix(out, attach) {
		t.Errorf("lab up printed\n%s, want it to end in\n%s", out, attach)
	}

	lines := strings.Split(clitest.Must(t, "lab", "list"), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], name+"  running") || !strings.HasSuffix(lines[1], "  built-in chain") {
		t.Errorf("lab list printed %q", lines)
	}
	want := strings.ReplaceAll(`MACHINE  NAMESPACE INTERFACES
h1       LAB-h1    eth0
r1       LAB-r1    eth0 eth1
h2       LAB-h2    eth0

LINK  KIND    MEMBERS
L1    direct  h1:eth0 r1:eth0
L2    direct  r1:eth1 h2:eth0
`, "LAB", name)
	if got := clitest.Must(t, "lab", "list", name); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("lab list %s printed\n%s, want\n%s", name, got, want)
	}
	var l lab.Lab
	if err := json.Unmarshal([]byte(clitest.Must(t, "lab", "list", "-o", "json")), &l); err != nil {
		t.Fatal(err)
	}
	if l.Name != name || l.Status != lab.Running || len(l.Machines) != 3 || len(l.Links) != 2 || l.Links[0].Kind != lab.Direct {
		t.Errorf("lab list -o json: %+v", l)
	}

	_, stderr, code := clitest.Radar(t, "lab", "up", "chain", "--name", name)
	if code != kit.ExitFailure || !strings.Contains(stderr, "radar lab down "+name) {
		t.Errorf("second lab up: exit code %d, said %q", code, stderr)
	}
	if got, want := clitest.Must(t, "lab", "down", name), "Lab "+name+" is down.\n"; got != want {
		t.Errorf("lab down printed %q, want %q", got, want)
	}
	want = fmt.Sprintf("radar: %q: no such lab runs; none does\n", name)
	if stdout, stderr, code := clitest.Radar(t, "lab", "down", name); code != kit.ExitFailure || stdout != "" || stderr != want {
		t.Errorf("second lab down: exit code %d, printed %q, said %q, want %q", code, stdout, stderr, want)
	}
	if left, _ := filepath.Glob("/run/netns/" + name + "*"); len(left) > 0 {
		t.Errorf("namespaces left: %v", left)
	}
}

// TestLabFolder names a lab by the folder that it was exported to.
func TestLabFolder(t *testing.T) {
	name := labName(t)
	dir := filepath.Join(t.TempDir(), name)
	clitest.Must(t, "lab", "export", "chain", dir, "--set", "N=2")
	t.Chdir(dir)
	clitest.Must(t, "lab", "up", "--name", name)
	if got := clitest.Must(t, "lab", "list", dir); !strings.Contains(got, name+"-r2") {
		t.Errorf("lab list DIR printed\n%s", got)
	}
	second := name + "2"
	clitest.Must(t, "lab", "up", dir, "--name", second)
	if _, stderr, code := clitest.Radar(t, "lab", "down"); code != kit.ExitFailure || !strings.Contains(stderr, name+", "+second) {
		t.Errorf("lab down of a folder that runs twice: exit code %d, said %q", code, stderr)
	}
	typo := fmt.Sprintf("radar: %q: no such lab runs; those that do: %s, %s\n", name+"3", name, second)
	if _, stderr, code := clitest.Radar(t, "lab", "down", name+"3"); code != kit.ExitFailure || stderr != typo {
		t.Errorf("lab down of a lab that is not there: exit code %d, said %q, want %q", code, stderr, typo)
	}
	clitest.Must(t, "lab", "down", second)
	if got, want := clitest.Must(t, "lab", "down", "-o", "json"), fmt.Sprintf(`{"name":%q,"removed":true}`+"\n", name); got != want {
		t.Errorf("lab down -o json printed %q, want %q", got, want)
	}
}

// TestLabSetWithComma: the flag cuts at commas, values may have some.
func TestLabSetWithComma(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	clitest.Must(t, "lab", "export", "forwarder", dir, "--set", "DELAY=normal:5ms,1ms,LOSS=3", "--set", "SEED=9")
	got, err := os.ReadFile(filepath.Join(dir, "f.startup"))
	if want := "radar lab forward eth0 eth1 --delay normal:5ms,1ms --loss 3% --seed 9 -d\n"; err != nil || string(got) != want {
		t.Errorf("f.startup: %q, %v, want %q", got, err, want)
	}
}

func TestLabErrors(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "lab.conf"), []byte("r1[0]=A\nr1[2]=B\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"up", "nonsense"}, kit.ExitFailure, "neither a folder nor a built-in scenario (bottleneck, chain, ecmp"},
		{[]string{"up", t.TempDir()}, kit.ExitFailure, "no lab.conf"},
		{[]string{"up", broken}, kit.ExitFailure, "lab.conf:2: r1 has eth2 but no eth1"},
		{[]string{"up", "chain", "--set", "N=0"}, kit.ExitUsage, "parameter N=0: use a whole number from 1 to 60"},
		{[]string{"up", "chain", "--set", "M=1"}, kit.ExitUsage, "unknown parameter M"},
		{[]string{"up", "chain", "--set", "N"}, kit.ExitUsage, `--set "N": use NAME=VALUE`},
		{[]string{"up", "chain", "--name", "a/b"}, kit.ExitUsage, `lab name "a/b"`},
		{[]string{"up", "chain", "--startup-timeout", "0"}, kit.ExitUsage, "--startup-timeout 0s"},
		{[]string{"up", "chain", "extra"}, kit.ExitUsage, "accepts at most 1 arg"},
		{[]string{"export", "chain", broken + "/x", "--set", "N=99"}, kit.ExitUsage, "parameter N=99"},
		{[]string{"export", "chain"}, kit.ExitUsage, "accepts 2 arg(s)"},
		{[]string{"list", "nobody"}, kit.ExitFailure, `"nobody": no such lab runs`},
		{[]string{"exec", "nobody", "h1"}, kit.ExitUsage, "requires at least 3 arg(s)"},
		{[]string{"exec", "nobody", "h1", "--"}, kit.ExitUsage, "no command to run in h1"},
	} {
		stdout, stderr, code := clitest.Radar(t, append([]string{"lab"}, tc.args...)...)
		if code != tc.code || !strings.Contains(stderr, tc.want) || stdout != "" {
			t.Errorf("lab %s: exit code %d, said %q%s; want %d and %q", strings.Join(tc.args, " "), code, stdout, stderr, tc.code, tc.want)
		}
	}
}

func TestLabExec(t *testing.T) {
	name := labName(t)
	clitest.Must(t, "lab", "up", "chain", "--set", "N=1", "--name", name)
	for _, dashes := range [][]string{nil, {"--"}} {
		args := append(append([]string{"lab", "exec", name, "r1"}, dashes...), "sh", "-c", "ip -br address; cat; exit 7")
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Env = append(os.Environ(), clitest.ExecEnv+"=1")
		cmd.Stdin = strings.NewReader("through")
		out, err := cmd.Output()
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok || failed.ExitCode() != 7 || !strings.Contains(string(out), "10.0.2.1/24") || !strings.HasSuffix(string(out), "through") {
			t.Errorf("lab exec printed %q and ended with %v: want r1's addresses, what went in, and exit status 7", out, err)
		}
	}
	plain, folder, script := filepath.Join(t.TempDir(), "plain"), t.TempDir(), filepath.Join(t.TempDir(), "script")
	for path, mode := range map[string]os.FileMode{plain: 0o644, script: 0o755} {
		if err := os.WriteFile(path, []byte("#!/no/such/shell\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]int{"no-such-command": kit.ExitNoCommand, "/no/such/file": kit.ExitNoCommand,
		plain: kit.ExitCannotRun, folder: kit.ExitCannotRun, script: kit.ExitCannotRun} {
		// As sh would say.
		sh := exec.Command("sh", "-c", command)
		_ = sh.Run()
		if _, stderr, code := clitest.Radar(t, "lab", "exec", name, "r1", "--", command); code != want || !strings.Contains(stderr, command) ||
			command != script && sh.ProcessState.ExitCode() != want { // dash says 127 of it, bash 126
			t.Errorf("lab exec %s: exit code %d, said %q; want %d, sh %d", command, code, stderr, want, sh.ProcessState.ExitCode())
		}
	}
	if _, stderr, code := clitest.Radar(t, "lab", "exec", name, "h9", "true"); code != kit.ExitFailure || !strings.Contains(stderr, `no machine "h9": it has h1, r1, h2`) {
		t.Errorf("lab exec in an unknown machine: exit code %d, said %q", code, stderr)
	}
	if _, stderr, code := clitest.Radar(t, "lab", "exec", "nobody", "h1", "true"); code != kit.ExitFailure || !strings.Contains(stderr, `"nobody": no such lab runs`) {
		t.Errorf("lab exec in an unknown lab: exit code %d, said %q", code, stderr)
	}
}

func TestLabCompletion(t *testing.T) {
	name := labName(t)
	clitest.Must(t, "lab", "up", "chain", "--set", "N=1", "--name", name)
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"lab", "down", ""}, []string{name}},
		{[]string{"lab", "exec", ""}, []string{name}},
		{[]string{"lab", "exec", name, ""}, []string{"h1", "r1", "h2"}},
		{[]string{"lab", "up", ""}, scenarios.Names()},
		{[]string{"lab", "graph", ""}, append([]string{name}, scenarios.Names()...)},
	} {
		stdout, _, code := clitest.Radar(t, append([]string{"__completeNoDesc"}, tc.args...)...)
		got := strings.Split(strings.TrimSpace(stdout), "\n")
		if code != kit.ExitOK || strings.Join(got[:len(got)-1], " ") != strings.Join(tc.want, " ") {
			t.Errorf("completion of %q: %q, want %q", tc.args, got, tc.want)
		}
	}
}

// What is there once is not counted as several.
func TestLabUpText(t *testing.T) {
	var out bytes.Buffer
	l := &lab.Lab{Name: "x", Machines: make([]lab.Node, 2), Links: make([]lab.Link, 1)}
	if err := printUp(&kit.Kit{Stdout: &out}, l, time.Second); err != nil || !strings.HasPrefix(out.String(), "Lab x is up: 2 machines, 1 link, ") {
		t.Errorf("it printed %q, %v", out.String(), err)
	}
}
