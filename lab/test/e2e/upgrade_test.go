// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// buildOther builds this tree as another version, whose layout has that number.
func buildOther(t *testing.T, layout int) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "radar-other")
	flags := []string{"-ldflags", "-X github.com/vnetradar/radar/pkg/cli.version=other"}
	if layout != domain.Version {
		flags = append(flags, "-overlay", otherLayout(t, layout))
	}
	if err := radarbin.Build(bin, flags...); err != nil {
		t.Fatal(err)
	}
	return bin
}

// otherLayout is an overlay for go build in which domain.Version is another one.
func otherLayout(t *testing.T, layout int) string {
	t.Helper()
	source, err := filepath.Abs("../../../pkg/vnet/domain/domain.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := fmt.Sprintf("const Version = %d\n", domain.Version), fmt.Sprintf("const Version = %d\n", layout)
	if bytes.Count(text, []byte(ours)) != 1 {
		t.Fatalf("%s has no line %q", source, ours)
	}
	changed := filepath.Join(t.TempDir(), "domain.go")
	if err := os.WriteFile(changed, bytes.Replace(text, []byte(ours), []byte(theirs), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUpgrade changes the program under full load, and back: an agent of equal layout is
// taken over as it stands; a domain of another layout is detached by the program that its
// agent runs, though that is gone from the disk.
func TestUpgrade(t *testing.T) {
	for _, c := range []struct {
		name   string
		layout int
	}{{"same layout", domain.Version}, {"another layout", domain.Version + 1}} {
		t.Run(c.name, func(t *testing.T) {
			need.Nightly(t) // it builds radar anew, which takes long
			needNetwork(t)
			other, sameLayout := buildOther(t, c.layout), c.layout == domain.Version
			net := startNetwork(lifetime(t), t, "chain")
			f := startStopFlows(t, net)
			rad := net.domain(t, routers(net.nodes()))
			report := &oracle.Report{Title: "another version takes over under full load: " + c.name}
			var account []*oracle.Row
			for i, bin := range []string{radarbin.Path(t), other, radarbin.Path(t)} {
				name := []string{"this", "the other", "this again"}[i]
				if i > 0 && sameLayout {
					kill(t, rad.status(t).Agent.PID)
				}
				if i > 0 && !sameLayout {
					account = append(account, rad.detachAfterUpgrade(t, net, bin))
				}
				rad.bin = copyOf(t, bin)
				rad.run(t, net.attachArgs(rad.nodes)...)
				marked := rad.counter(t, "marked")
				nstest.WaitFor(t, name+" to mark packets", func() bool { return rad.counter(t, "marked") > marked })
				report.Add(f.phase(t, name, time.Second)...)
			}
			report.Add(append(account, rad.account(t, f))...)
			keepReport(t, report)
			if !report.OK() {
				t.Error("packets differ, or are not accounted for: see the table")
			}
		})
	}
}

// copyOf a program, which can be removed while it runs.
func copyOf(t *testing.T, bin string) string {
	t.Helper()
	b, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "radar")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// detachAfterUpgrade detaches a domain with another version. All else says that it must
// be detached first.
func (r *radar) detachAfterUpgrade(t *testing.T, net *network, bin string) *oracle.Row {
	t.Helper()
	if err := os.Remove(r.bin); err != nil {
		t.Fatal(err)
	}
	upgraded := *r
	upgraded.bin = bin
	for _, args := range [][]string{{"status"}, net.attachArgs(r.nodes)} {
		if out, err := upgraded.try(args...); err == nil || !strings.Contains(err.Error(), "detach it with: radar detach --domain "+r.domain) {
			t.Errorf("radar %s of the other version: %v\n%s", args[0], err, out)
		}
	}
	if out, err := (&radar{ctx: r.ctx, bin: bin, domain: uniqueName()}).try(net.attachArgs(r.nodes)...); err == nil {
		t.Errorf("nodes of a domain of another version were attached to a second one:\n%s", out)
	}
	var ended struct {
		Ended   bool `json:"ended"`
		Summary struct {
			Totals totals `json:"totals"`
		} `json:"summary"`
	}
	if err := json.Unmarshal(upgraded.run(t, "detach", "-o", "json"), &ended); err != nil || !ended.Ended {
		t.Fatalf("detach: %+v, %v", ended, err)
	}
	row := ended.Summary.Totals.row(false)
	row.Check = "seen, as the summary says"
	return row
}

// TestUpgradeWithoutAgent: a domain of another layout whose agent is gone ends all the same, where such domains lay.
func TestUpgradeWithoutAgent(t *testing.T) {
	need.Nightly(t)
	needNetwork(t)
	const layout = 9 // the last one whose domains had no directory of their kind
	other := buildOther(t, layout)
	net := startNetwork(lifetime(t), t, "chain")
	report := &oracle.Report{Title: "another version ends a domain whose agent is dead"}
	for _, hook := range []string{"tcx", "clsact"} {
		rad := net.domain(t, routers(net.nodes()))
		rad.bin = other
		rad.run(t, net.attachArgs(rad.nodes, "--hook", hook)...)
		net.run(t, "h1", "ping", "-q", "-c", "5", "-i", "0.01", "10.0.4.2")
		kill(t, rad.status(t).Agent.PID)
		rad.bin = radarbin.Path(t)
		radarPins := filepath.Dir(filepath.Dir(domain.PinDir("x")))
		oldPins := filepath.Join(radarPins, fmt.Sprintf("v%d", layout), rad.domain)
		if err := errors.Join(os.MkdirAll(filepath.Dir(oldPins), 0o700), os.Rename(domain.PinDir(rad.domain), oldPins),
			os.Rename(domain.Dir(rad.domain), filepath.Join(filepath.Dir(filepath.Dir(domain.Dir(rad.domain))), rad.domain))); err != nil {
			t.Fatal(err)
		}
		if out, err := rad.both("status"); err == nil || !strings.Contains(out+err.Error(), "detach it with: radar detach --domain "+rad.domain) {
			t.Errorf("%s: %v, want what to do\n%s", hook, err, out)
		}
		out, err := rad.both("detach")
		if err != nil || !strings.Contains(out, "without a summary") {
			t.Errorf("%s: %v, want a warning:\n%s", hook, err, out)
		}
		net.wantNoPrograms(t, rad)
		if _, err := os.Lstat(oldPins); err == nil {
			t.Errorf("%s: pins are left", hook)
		}
		report.Add(&oracle.Row{Check: hook, Compared: 1, Wrong: failures(t), Note: "nothing is left"})
	}
	keepReport(t, report)
}
