// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/filter"
)

// The help of --max-hops says what a longer path comes to.
func TestHelpOfMaxHops(t *testing.T) {
	stdout, _, code := clitest.Radar(t, "attach", "--help")
	for _, want := range []string{"nodes on a path", "both ends", "docs/limits.md"} {
		if code != kit.ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, stdout)
		}
	}
}

// Whoever calls a command wrongly is told what is wrong and where the help is.
func TestUsageErrors(t *testing.T) {
	t.Setenv("RADAR_DOMAIN", "nobody-here") // a default one may be attached on this machine
	for _, c := range []struct {
		args string
		want string // in the message
	}{
		{"bogus", `unknown command "bogus" for "radar"`},
		{"packet", `did you mean "packets"?`},
		{"lab bogus", `unknown command "bogus" for "radar lab": there are down, exec, export, `},
		{"plot latncy -o x.svg", `unknown command "latncy" for "radar plot", did you mean "latency"? There are latency, loss, paths, queue, timeline`},
		{"lab dwn", `did you mean "down"? There are down, `},
		{"plot latncy --help", `did you mean "latency"? There are `},
		{"lab -o json dwn --help", `did you mean "down"? There are down, `},
		{"latncy -h", `did you mean "latency"?`},
		{"latncy --by link", `unknown command "latncy" for "radar", did you mean "latency"?`},
		{"completion bogus", `unknown command "bogus" for "radar completion"`},
		{"help bogus", `unknown command "bogus"`},
		{"help lab bogus", `unknown command "lab bogus"`},
		{"--bogus", "unknown flag: --bogus"},
		{"packets --bogus", "unknown flag: --bogus"},
		{"capture --snaplen 64k -w x", `invalid argument "64k" for "--snaplen" flag: use a whole number`},
		{"export ipfix --mtu 70000", `"--mtu" flag: too large: use a whole number, 0 to 65535`},
		{"record --before 5", `"--before" flag: use a time with its unit, such as 500ms, 10s or 5m`},
		{"diff --alpha x", `"--alpha" flag: use a number`},
		{"capture --snaplen 99999999999999999999", `"--snaplen" flag: too large: use a whole number`},
		{"capture --snaplen -99999999999999999999", `"--snaplen" flag: too small: use a whole number`},
		{"diff --alpha 1e999", `"--alpha" flag: too large: use a number`},
		{"export ipfix --mtu=-1", `"--mtu" flag: use a whole number, 0 to 65535`},
		{"diff --exit-code=maybe a b", `use true or false`},
		{"packets -z", "unknown shorthand flag: 'z'"},
		{"packets udp prot 5", `filter expression "udp prot 5": can't parse filter expression: syntax error`},
		{"packets udp[4:2]=9", `filter expression "udp[4:2]=9": udp[4:2] (UDP length) is not kept in records`},
		{"packets vlan 3", "no VLAN support"},
		{"attach --watch tcp[ netns:x", `--watch: filter expression "tcp[": can't parse`},
		{"attach --watch arp netns:x", "instead of the link layer"},
		{"status extra", "extra"},
		{"trace", "no packet named"},
		{"trace zz", "not a packet's id"},
		{"trace --last 3", "--last=N"},
		{"trace --state lost 5f3a9c01-1", "use them with --last"},
		{"trace --last --state gone", "--state \"gone\""},
		{"topo -o xml", `unknown format "xml": use table, wide, json, mermaid or dot`},
		{"lab graph a b", "accepts at most 1 arg"},
		{"packets -o xml", `unknown format "xml": use table, wide, json or csv`},
		{"status -o csv", "no CSV"},
		{"packets --last", "flag needs an argument"},
		{"packets --last=-1", `"-1" is no count: use a number`},
		{"paths --last -1", `"-1" is no count: use a number`},
		{"paths --state in_flight", "radar packets"},
		{"paths --state lost,In-Flight", "radar packets"},
		{"loss --since yesterday", "--since \"yesterday\""},
		{"flows --sort size", `unknown order "size": use packets, bytes, rate`},
		{"flows --interval 1ms -f", "--interval"},
		{"throughput --window 1500ms -f", "--window 1.5s: use 1s to 300s"},
		{"latency --top 5", "--top: only with --by flow"},
		{"throughput --by link --top 5", "--top: only with --by flow"},
		{"throughput --by flow --series -f", "--series"},
		{"throughput --by end-to-end", `unknown group "end-to-end": use link, port`},
		{"loss --by port", `unknown group "port": use place, flow`},
		{"packets --last x", "--last"},
		{"packets --since yesterday", "--since \"yesterday\""},
		{"packets --src 10.0.0.0/99", "--src \"10.0.0.0/99\""},
		{"packets --proto bogus", "--proto \"bogus\""},
		{"packets --sport 70000", "--sport \"70000\""},
		{"packets --state gone", "--state \"gone\""},
		{"latency --by port", `unknown group "port": use node, queue, link, path, end-to-end, flow`},
		{"attach", "no node named"},
		{"attach --slots 3^2 netns:x", "3^2"},
		{"attach --slots 1000000 netns:x", "power of two"},
		{"attach --slots 1K netns:x", "--slots 1024"},
		{"attach --guid-bits 99 netns:x", "--guid-bits"},
		{"attach --carry pigeon netns:x", "--carry"},
		{"attach --hook xdp netns:x", "--hook"},
		{"attach --timeout 1 netns:x", "--timeout"},
		{"attach --timeout 1h netns:x", "--timeout"},
		{"attach --lease 5ms netns:x", "--lease"},
		{"attach --max-hops 1 netns:x", "--max-hops"},
		{"attach --keys 1 netns:x", "keys"},
		{"attach no-such-node-here", "netns:NAME"},
		{"attach netns:no-such-namespace-here", "no such namespace"},
		{"attach pid:0", "pid:0"},
		{"status --domain ../etc", "domain name"},
		{"docs", "accepts 2 arg"},
		{"packets -w x -o json", "use one of them"},
		{"packets --at h1", "--at: only with -w"},
		{"packets -f -w x --last 3", "--last: a capture that follows"},
		{"capture -o json", "radar packets -f -o json"},
		{"capture --last 3 -w x", "a capture begins now"},
		{"extcap --capture --extcap-interface eth0", "radar-DOMAIN"},
		{"extcap --capture --extcap-interface radar-x", "--fifo"},
	} {
		t.Run(c.args, func(t *testing.T) {
			stdout, stderr, code := clitest.Radar(t, strings.Fields(c.args)...)
			if code != kit.ExitUsage {
				t.Errorf("exit code %d, want %d", code, kit.ExitUsage)
			}
			if stdout != "" {
				t.Errorf("printed to stdout: %q", stdout)
			}
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			if len(lines) != 2 || !strings.HasPrefix(lines[0], "radar: ") || !strings.Contains(lines[0], c.want) {
				t.Errorf("said %q, want one line with %q and one hint", stderr, c.want)
			}
			if hint := lines[len(lines)-1]; !strings.HasPrefix(hint, "Run 'radar") || !strings.HasSuffix(hint, "--help' for usage.") {
				t.Errorf("hint is %q", hint)
			}
		})
	}
}

// What a flag takes is said in the same words where a variable sets it.
func TestWrongVariable(t *testing.T) {
	t.Setenv("RADAR_SNAPLEN", "64k")
	if _, stderr, code := clitest.Radar(t, "capture", "-w", "x"); code != kit.ExitUsage || !strings.Contains(stderr, `RADAR_SNAPLEN="64k": use a whole number`) {
		t.Errorf("exit code %d, said %q", code, stderr)
	}
}

// A state directory that cannot be one is named, also by commands that only read there.
func TestStateDirIsFile(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", "/proc/version")
	for _, args := range []string{"status", "packets", "detach", "attach --lab x", "attach -d netns:x", "lab down"} {
		stdout, stderr, code := clitest.Radar(t, strings.Fields(args)...)
		if code != kit.ExitUsage || stdout != "" || !strings.Contains(stderr, `RADAR_STATE_DIR="/proc/version": that is no directory`) {
			t.Errorf("radar %s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// Expressions are checked before anything else; without libpcap, that is said.
func TestWrongExpressions(t *testing.T) {
	for args, want := range map[string]string{
		"packets tcp and bogus": `filter expression "tcp and bogus"`,
		"paths udp[4:2] == 2":   "is not kept in records",
		"flows ether host x":    "filter expression",
	} {
		code := kit.ExitUsage
		if !filter.Available {
			code, want = kit.ExitFailure, "without filter expressions"
		}
		if stdout, stderr, got := clitest.Radar(t, strings.Fields(args)...); got != code || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("radar %s: code %d, stdout %q, stderr %q", args, got, stdout, stderr)
		}
	}
}

// Commands that need a domain say how to get one, and fail.
func TestNotAttached(t *testing.T) {
	t.Setenv("RADAR_DOMAIN", "nobody-here") // a default one may be attached on this machine
	for _, args := range []string{"status", "packets", "packets -f", "paths", "latency", "loss", "flows", "throughput", "flows -f", "topo", "topo --load", "trace --last", "status -o json", "agent"} {
		stdout, stderr, code := clitest.Radar(t, strings.Fields(args)...)
		if code != kit.ExitFailure || stdout != "" || !strings.Contains(stderr, `domain "nobody-here" is not attached (`) ||
			!strings.Contains(stderr, "radar attach") {
			t.Errorf("radar %s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// Help is for standard output, with examples. (Its text is in docs/cli.)
func TestHelp(t *testing.T) {
	for _, args := range []string{"", "attach", "detach", "status", "packets", "paths", "latency", "loss", "flows", "throughput", "topo", "trace", "lab graph", "int decode", "check", "version"} {
		t.Run(args, func(t *testing.T) {
			fields := append(strings.Fields(args), "--help")
			if args == "" {
				fields = nil // a bare call is a call for help
			}
			stdout, stderr, code := clitest.Radar(t, fields...)
			if code != kit.ExitOK || stderr != "" {
				t.Fatalf("code %d, stderr %q", code, stderr)
			}
			for _, want := range []string{"Usage:", "Examples:", "--domain"} {
				if !strings.Contains(stdout, want) {
					t.Errorf("help lacks %q", want)
				}
			}
		})
	}
}

// Every flag of every command can be set from the environment.
func TestEnvironment(t *testing.T) {
	t.Run("sets a flag", func(t *testing.T) {
		t.Setenv("RADAR_OUTPUT", "json")
		stdout, _, code := clitest.Radar(t, "version")
		if code != kit.ExitOK || !json.Valid([]byte(stdout)) {
			t.Errorf("code %d, stdout %q", code, stdout)
		}
	})
	t.Run("a flag wins", func(t *testing.T) {
		t.Setenv("RADAR_OUTPUT", "json")
		if stdout, _, _ := clitest.Radar(t, "version", "-o", "table"); json.Valid([]byte(stdout)) {
			t.Errorf("stdout %q", stdout)
		}
	})
	t.Run("a commit that is not known is not told", func(t *testing.T) {
		// Test programs have none.
		if stdout, _, _ := clitest.Radar(t, "version"); !strings.Contains(stdout, "-dev go1.") {
			t.Errorf("stdout %q", stdout)
		}
	})
	t.Run("domain", func(t *testing.T) {
		t.Setenv("RADAR_DOMAIN", "elsewhere")
		if _, stderr, _ := clitest.Radar(t, "status"); !strings.Contains(stderr, `domain "elsewhere"`) {
			t.Errorf("stderr %q", stderr)
		}
	})
	t.Run("empty is unset", func(t *testing.T) {
		t.Setenv("RADAR_OUTPUT", "")
		if _, _, code := clitest.Radar(t, "version"); code != kit.ExitOK {
			t.Errorf("code %d", code)
		}
	})
	t.Run("not of this command", func(t *testing.T) {
		t.Setenv("RADAR_SLOTS", "nonsense")
		if _, stderr, code := clitest.Radar(t, "version"); code != kit.ExitOK {
			t.Errorf("code %d, stderr %q", code, stderr)
		}
	})
	for name, c := range map[string]struct{ value, args, want string }{
		"RADAR_SLOTS":     {"nonsense", "attach netns:x", `RADAR_SLOTS="nonsense"`},
		"RADAR_GUID_BITS": {"99", "attach netns:x", "--guid-bits"},
		"RADAR_OUTPUT":    {"xml", "version", `RADAR_OUTPUT="xml"`},
		"RADAR_BY":        {"port", "latency", `RADAR_BY="port"`},
		"RADAR_FOLLOW":    {"maybe", "packets", `RADAR_FOLLOW="maybe"`},
		"RADAR_STATE":     {"lost,gone", "packets", `--state "gone"`},
	} {
		t.Run("invalid "+name, func(t *testing.T) {
			t.Setenv(name, c.value)
			_, stderr, code := clitest.Radar(t, strings.Fields(c.args)...)
			if code != kit.ExitUsage || !strings.Contains(stderr, c.want) {
				t.Errorf("code %d, stderr %q, want %q", code, stderr, c.want)
			}
		})
	}
}

// A reader that has gone ends the command without a word: radar packets | head.
func TestClosedOutput(t *testing.T) {
	var errs bytes.Buffer
	code := clitest.Run(context.Background(), []string{"version"}, strings.NewReader(""), brokenPipe{}, &errs)
	if code != kit.ExitOK || errs.Len() > 0 {
		t.Errorf("code %d, stderr %q", code, errs.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Err: syscall.EPIPE}
}

// A full disk is not taken for success.
func TestFailedOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var errs bytes.Buffer
	code := clitest.Run(context.Background(), []string{"version"}, strings.NewReader(""), full, &errs)
	if code != kit.ExitFailure || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("code %d, stderr %q", code, errs.String())
	}
}

// The committed reference is what the commands say now.
func TestDocsAreCurrent(t *testing.T) {
	want, got := readDir(t, filepath.Join(clitest.Root(t), "docs", "cli")), writtenDocs(t, "cli")
	for name := range got {
		if want[name] != got[name] {
			t.Errorf("docs/cli/%s is out of date (write it with: go run ./cmd/radar docs cli docs/cli)", name)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("docs/cli/%s belongs to no command", name)
		}
	}
}

// Each page of the reference is a man page, too, and none says when it was made: packages of two days are
// the same.
func TestManPages(t *testing.T) {
	pages, reference := writtenDocs(t, "man"), writtenDocs(t, "cli")
	for name := range reference {
		man := strings.ReplaceAll(strings.TrimSuffix(name, ".md"), "_", "-") + ".1"
		if !strings.Contains(pages[man], ".SH SYNOPSIS") {
			t.Errorf("no man page %s", man)
		}
		if head := `"1" "" "radar" "radar manual"`; !strings.Contains(pages[man], head) {
			t.Errorf("%s has not the head %s", man, head)
		}
	}
	if len(pages) != len(reference) {
		t.Errorf("%d man pages for %d pages of the reference", len(pages), len(reference))
	}
	if _, stderr, code := clitest.Radar(t, "docs", "html", t.TempDir()); code != kit.ExitUsage {
		t.Errorf("pages of a kind that is none: code %d, stderr %q", code, stderr)
	}
}

// writtenDocs are the pages of a kind as the commands are now.
func writtenDocs(t *testing.T, kind string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if _, stderr, code := clitest.Radar(t, "docs", kind, dir); code != kit.ExitOK {
		t.Fatalf("code %d, stderr %q", code, stderr)
	}
	return readDir(t, dir)
}

func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// Help shows the commands in groups, each of which says what it is for, and no command is left out. What is kept in
// which way has a page of its own.
func TestGroups(t *testing.T) {
	root := newRootCmd(kit.New(nil, nil, nil))
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.GroupID == "" && !slices.Contains([]string{"completion", "help", "version"}, cmd.Name()) {
			t.Errorf("radar %s is in no group", cmd.Name())
		}
	}
	for args, wants := range map[string][]string{
		"--help":       {"\nLook: ", "\nAsk: ", "\nKeep: ", "\nTest: ", "\nINT: ", "\nLabs: ", "radar help keeping"},
		"help keeping": {"  the ring  ", "radar record  ", "radar capture  ", "radar export   ", "radar collect  "},
		"int --help":   {"  metrics "},
	} {
		stdout, _, code := clitest.Radar(t, strings.Fields(args)...)
		for _, want := range wants {
			if code != kit.ExitOK || strings.Count(stdout, want) != 1 && want != "radar help keeping" || !strings.Contains(stdout, want) {
				t.Errorf("radar %s: code %d, %q is not there, or twice:\n%s", args, code, want, stdout)
			}
		}
	}
	if _, stderr, code := clitest.Radar(t, "metrics"); code != kit.ExitUsage || !strings.Contains(stderr, "unknown command") {
		t.Errorf("radar metrics: code %d, %s", code, stderr)
	}
}

// Scripts that ask by the first name of a flag go on, and the help has one name for it.
func TestFirstName(t *testing.T) {
	want := `invalid argument "x" for "--after-delivery" flag`
	if _, stderr, _ := clitest.Radar(t, "loss", "--local=x"); !strings.Contains(stderr, want) {
		t.Errorf("radar loss --local=x: %s, want %s", stderr, want)
	}
	if stdout, _, _ := clitest.Radar(t, "loss", "--help"); strings.Contains(stdout, "--local") {
		t.Errorf("the help has two names:\n%s", stdout)
	}
}
