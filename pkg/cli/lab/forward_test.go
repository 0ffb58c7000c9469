// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/forward"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/lab"
)

func TestParseRate(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "500": 500, "20M": 20_000_000, "1.5k": 1500, "2G": 2_000_000_000} {
		if got, err := parseRate(in); err != nil || got != want {
			t.Errorf("parseRate(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
}

func TestLabForwardErrors(t *testing.T) {
	for _, tc := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--delay", "gauss:1ms"}, `--delay: delay "gauss:1ms": unknown distribution "gauss"`},
		{[]string{"--loss", "2"}, `--loss "2": use a share such as 0.01 or 1%`},
		{[]string{"--loss", "101%"}, `--loss "101%"`},
		{[]string{"--loss", "NaN"}, `--loss "NaN"`},
		{[]string{"--rate", "fast"}, `--rate "fast": use bits a second such as 500K or 20M`},
		{[]string{"--rate", "-1"}, `--rate "-1"`},
		{[]string{"--rate", "0.5"}, `--rate "0.5"`},
		{[]string{"--rate", "NaN"}, `--rate "NaN"`},
		{[]string{"--queue", "0"}, `--queue 0: use 1 or more`},
		{[]string{}, "accepts 2 arg(s), received 1"},
	} {
		args := []string{"lab", "forward", "rdrnone0", "rdrnone1"}
		if len(tc.flags) == 0 {
			args = args[:3]
		}
		_, stderr, code := clitest.Radar(t, append(args, tc.flags...)...)
		if code != kit.ExitUsage || !strings.Contains(stderr, tc.want) {
			t.Errorf("%v: exit code %d, said %q, want %d and %q", tc.flags, code, stderr, kit.ExitUsage, tc.want)
		}
	}
	if _, stderr, code := clitest.Radar(t, "lab", "forward", "rdrnone0", "rdrnone0"); code != kit.ExitUsage || !strings.Contains(stderr, "name two interfaces") {
		t.Errorf("one interface twice: exit code %d, said %q", code, stderr)
	}
}

func TestLabForwardNoInterface(t *testing.T) {
	need.AsRoot(t)
	if _, stderr, code := clitest.Radar(t, "lab", "forward", "rdrnone0", "rdrnone1"); code != kit.ExitFailure || !strings.Contains(stderr, "interface rdrnone0") {
		t.Errorf("interfaces that are not there: exit code %d, said %q", code, stderr)
	}
}

func TestInterfaceNames(t *testing.T) {
	const procNetDev = "Inter-|   Receive\n face |bytes\n    lo:  0 0\n  eth0: 12 0\n longname12:3\n"
	if got, want := interfaceNames(strings.NewReader(procNetDev)), []string{"eth0", "longname12"}; !slices.Equal(got, want) {
		t.Errorf("interfaceNames = %q, want %q", got, want)
	}
}

// TestLabForward runs the program as users do: in the foreground with SIGUSR1 and
// Ctrl-C, and in the background.
func TestLabForward(t *testing.T) {
	name := labName(t)
	need.Programs(t, "ping:iputils-ping")
	dir, bin := t.TempDir(), radarbin.Path(t)
	for file, text := range map[string]string{
		"lab.conf": "h1[0]=A\nf[0]=A\nf[1]=B\nh2[0]=B\n", "h1.startup": "ip address add 10.0.0.1/24 dev eth0\n",
		"h2.startup": "ip address add 10.0.0.2/24 dev eth0\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clitest.Must(t, "lab", "up", dir, "--name", name)
	l, err := lab.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	ping := func() {
		t.Helper()
		if out, err := l.Command(t.Context(), "h1", "ping", "-c", "2", "-i", "0.2", "-W", "60", "10.0.0.2").CombinedOutput(); err != nil {
			t.Errorf("ping through the forwarder: %v\n%s", err, out)
		}
	}
	var stdout, stderr clitest.Growing
	fg := l.Command(t.Context(), "f", bin, "lab", "forward", "eth0", "eth1", "--delay", "2ms", "--seed", "1", "-o", "json")
	fg.Stdout, fg.Stderr = &stdout, &stderr
	if err := fg.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "the forwarder", func() bool { return strings.Contains(stderr.String(), "forwarding between") })
	ping()
	fg.Process.Signal(syscall.SIGUSR1)
	nstest.WaitFor(t, "counts", func() bool { return strings.Count(stdout.String(), "\n") >= 2 }) // the same as at the end
	fg.Process.Signal(os.Interrupt)
	if err := fg.Wait(); err != nil {
		t.Errorf("radar lab forward: %v\n%s", err, stderr.String())
	}
	if !strings.Contains(stderr.String(), "forwarding between eth0 and eth1: delay constant:2ms, loss 0, seed 1\n") {
		t.Errorf("it said %q", stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("SIGUSR1 and the end printed %q, want two directions each", lines)
	}
	for i, line := range lines {
		var c forward.Counts
		err := json.Unmarshal([]byte(line), &c)
		// The first two are of while it runs: a frame may have left and not be counted yet.
		if err != nil || c.In < 3 || c.Out > c.In || i >= 2 && c.Out+c.Queued != c.In {
			t.Errorf("counts %s: %v", line, err)
		}
	}

	if out, err := l.Command(t.Context(), "f", bin, "lab", "forward", "eth0", "eth9", "-d").CombinedOutput(); err == nil ||
		strings.Count(string(out), "interface eth9: find it: no such device") != 1 {
		t.Errorf("in the background with a wrong interface: %v, said %s", err, out)
	}
	bg := l.Command(t.Context(), "f", bin, "lab", "forward", "-d", "--", "eth0", "eth1")
	if err := bg.Run(); err != nil {
		t.Fatalf("radar lab forward -d: %v", err)
	}
	ping()
}
