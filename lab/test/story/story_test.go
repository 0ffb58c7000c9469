// SPDX-License-Identifier: Apache-2.0

// Package story does what docs/run.md says, as a user would who has the page alone.
package story

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/dropwatch"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/record"
)

func TestMain(m *testing.M) { radarbin.Main(m) }

// reader is somebody who types what the page says.
type reader struct {
	*testing.T
	dir string   // where
	lab string   // the page's "shop": many of these may run on a machine
	env []string // of all commands

	drops *dropwatch.Watch // the kernel's own list
}

// block is a part of the page with commands.
type block struct{ heading, script string }

var parts = regexp.MustCompile("(?ms)^## ([^\n]*)$|^```sh\n(.*?)^```$")

// blocks are the commands of the page, in order.
func blocks(t *testing.T) (list []block) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/run.md")
	if err != nil {
		t.Fatal(err)
	}
	heading := ""
	for _, m := range parts.FindAllStringSubmatch(string(page), -1) {
		if m[1] != "" {
			heading = m[1]
			continue
		}
		list = append(list, block{heading, m[2]})
	}
	return list
}

// newReader has an empty folder, a radar and a Python of its own, and no domain or lab of this machine in sight.
func newReader(t *testing.T) *reader {
	t.Helper()
	need.AsRoot(t)
	need.Programs(t, "tshark", "iperf3", "tc:iproute2", "bash")
	python := servers.Python(t, "records")
	r := &reader{T: t, dir: t.TempDir(), lab: nstest.Unique()}
	home, bin := t.TempDir(), t.TempDir()
	// A virtual environment's Python looks for its modules where it is called.
	for name, program := range map[string]string{"radar": radarbin.Path(t), "python3": python} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexec "+program+` "$@"`+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "RADAR_STATE_DIR="+t.TempDir(), "RADAR_DOMAIN="+r.lab,
		"XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home+"/.local/share")
	nstest.Cleanup(t, func() {
		_, _ = r.bash("radar detach")
		_, _ = r.bash("radar lab down shop")
	})
	return r
}

// bash runs commands, and returns what they print.
func (r *reader) bash(script string) (string, error) {
	ctx := context.WithoutCancel(r.Context()) // also while the test ends
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", regexp.MustCompile(`\bshop\b`).ReplaceAllString(script, r.lab))
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs commands that succeed.
func (r *reader) must(script string) string {
	r.Helper()
	out, err := r.bash(script)
	if err != nil {
		r.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return out
}

// TestPage: every command of the page works, and what they say is so, judged by what is not radar.
func TestPage(t *testing.T) {
	r := newReader(t)
	said := make(map[string]string)
	all := blocks(t)
	if n := len(all); n < 12 {
		t.Fatalf("%d blocks of commands in the page", n)
	}
	for _, b := range all {
		if b.heading == "Clean up" {
			r.judge(said)
		}
		// The list is short if it has the drops of that run alone: it has those of all that runs on this machine.
		judged := strings.Contains(b.script, "--record after")
		if judged {
			r.drops = dropwatch.Start(t)
		}
		said[b.heading] += r.must(b.script)
		if judged {
			if err := r.drops.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		if testing.Verbose() {
			t.Logf("## %s\n%s\n%s", b.heading, b.script, said[b.heading])
		}
	}
	if out := r.must("radar lab list -o json"); strings.Contains(out, r.lab) {
		t.Errorf("the lab is still there: %s", out)
	}
}

// judge holds what the page's commands have printed against the kernel's counters, iperf3 and what other programs read.
func (r *reader) judge(said map[string]string) {
	r.Helper()
	lost := r.dropped()
	if lost == 0 {
		r.Fatal("the queue at s3 has dropped nothing: no transfer came there")
	}
	lost -= r.unseen()
	if text := said["What changed?"]; !regexp.MustCompile(`(?m)^(latency|loss) .*`).MatchString(text) {
		r.Errorf("diff does not say what changed:\n%s", text)
	}
	r.slowest(said["The slowest packets"])
	if text := said["Why was a flow slow?"]; !regexp.MustCompile(`^slow because .*s3/eth1`).MatchString(text) {
		r.Errorf("explain names another cause:\n%s", text)
	}
	if text := said["Did the network keep its promises?"]; !strings.Contains(text, "exit code 1") || !regexp.MustCompile(`(?m)^holds +no loss on the way`).MatchString(text) ||
		!regexp.MustCompile(`(?m)^fails +no loss on the way`).MatchString(text) {
		r.Errorf("assert:\n%s", text)
	}
	r.junit()
	if text := said["In Wireshark"]; !regexp.MustCompile(`(?m)^ *` + strconv.Itoa(lost) + `\ts3/eth1\tQDISC_DROP\ttbf`).MatchString(regexp.MustCompile(`(?m)^( *\d+) `).ReplaceAllString(text, "$1\t")) {
		r.Errorf("tc counts %d dropped that the kernel shows to programs, tshark says:\n%s", lost, text)
	}
	if text := said["Give it away"]; !regexp.MustCompile(`(?m)^s3 +eth1 +QDISC_DROP +\d+$`).MatchString(text) {
		r.Errorf("pandas reads:\n%s", text)
	}
	if b, err := os.ReadFile(filepath.Join(r.dir, "latency.pdf")); err != nil || !strings.HasPrefix(string(b), "%PDF-") {
		r.Errorf("no figure: %v", err)
	}
}

// dropped is how many packets the kernel says that the queue at s3 has dropped.
func (r *reader) dropped() int {
	r.Helper()
	var list []struct {
		Kind  string
		Drops int
	}
	out := r.must("radar lab exec shop s3 -- tc -s -j qdisc show dev eth1")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || list[0].Kind != "tbf" {
		r.Fatalf("%v: %s", err, out)
	}
	return list[0].Drops
}

// unseen counts the drops at s3 for which this kernel ran no BPF program: those radar says to have expired there, where
// the kernel's own list has a drop in that time with process 1 as the current task.
func (r *reader) unseen() (n int) {
	r.Helper()
	out := r.must("radar packets -r after --last 0 --state expired -o json 2>/dev/null")
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var rec record.Record
		if err := dec.Decode(&rec); err != nil {
			r.Fatal(err)
		}
		last := rec.TNs // what expired has no latency
		if ns := rec.LastNs(); ns != nil {
			last += *ns
		}
		if r.drops.Blind(last, last+int64(time.Second), []string{"QDISC_DROP"}) {
			n++
		}
	}
	return n
}

// slowest compares the ten with those that Python finds in the records that radar prints.
func (r *reader) slowest(table string) {
	r.Helper()
	out := r.must(`radar packets -r after --last 0 --state delivered -o json >all.json
python3 - <<'END'
import json
all = [json.loads(line) for line in open("all.json")]
for p in sorted(all, key=lambda p: (-p["latency_ns"], p["id"]))[:10]:
    hop = max(p["hops"], key=lambda h: h.get("queue_ns") or -1)
    print(p["id"], hop["node"], hop.get("port", ""), sep=",")
END`)
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 10 {
		r.Fatalf("%v: %s", err, out)
	}
	for _, row := range rows {
		i := slices.IndexFunc(strings.Split(table, "\n"), func(line string) bool { return strings.Contains(line, row[0]) })
		if i < 0 || !regexp.MustCompile(fmt.Sprintf(`\b%s\b.*\b%s\b`, row[1], row[2])).MatchString(strings.Split(table, "\n")[i]) {
			r.Errorf("%v is not among the slowest ten:\n%s", row, table)
		}
	}
}

// junit reads what a CI system would.
func (r *reader) junit() {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "results.xml"))
	if err != nil {
		r.Fatal(err)
	}
	var suites struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil || len(suites.Suites) != 1 || suites.Suites[0].Tests != 3 || suites.Suites[0].Failures < 2 {
		r.Errorf("%v: %s", err, text)
	}
}
