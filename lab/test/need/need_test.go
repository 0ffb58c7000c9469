// SPDX-License-Identifier: Apache-2.0

package need

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// probe notes how a test ended, as testing.T would end it.
type probe struct {
	testing.TB
	ended string
}

type end struct{}

func (p *probe) Helper() {}

func (p *probe) stop(how string, args ...any) {
	p.ended = how + fmt.Sprint(args...)
	panic(end{})
}

func (p *probe) Skip(args ...any)                  { p.stop("skip: ", args...) }
func (p *probe) Skipf(format string, args ...any)  { p.stop("skip: ", fmt.Sprintf(format, args...)) }
func (p *probe) Fatal(args ...any)                 { p.stop("fail: ", args...) }
func (p *probe) Fatalf(format string, args ...any) { p.stop("fail: ", fmt.Sprintf(format, args...)) }

// run returns how f ended a test: "" if it let it go on.
func run(f func(testing.TB)) string {
	p := &probe{}
	func() {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(end); !ok {
					panic(r)
				}
			}
		}()
		f(p)
	}()
	return p.ended
}

func TestNeeds(t *testing.T) {
	lack := func(n Need) func(testing.TB) { return func(t testing.TB) { Lack(t, n, "do this") } }
	missing := func(t testing.TB) {
		Programs(t, "sh", "radar-no-such-tool:no-such-package", "radar-none:no-such-package")
	}
	for _, c := range []struct {
		name, require, tier string
		f                   func(testing.TB)
		want                string // beginning; "": goes on
	}{
		{"lacks what nobody requires", "", "", lack(Docker), "skip: needs docker: do this"},
		{"lacks what is required", "root,docker", "", lack(Docker), "fail: needs docker"},
		{"requires another", "root tools", "", lack(Docker), "skip: needs docker"},
		{"requires what nobody knows", "rot", "", lack(Docker), `fail: RADAR_REQUIRE: no need "rot"`},
		{"needs what nobody knows", "", "", lack("bread"), "fail: package need knows no"},
		{"programs are there", "tools", "", func(t testing.TB) { Programs(t, "sh") }, ""},
		{"programs are missing", "", "", missing, "skip: needs tools: apt-get install no-such-package"},
		{"required programs are missing", "tools", "", missing, "fail: needs tools"},
		{"check has no root", "root", "check", AsRoot, "skip: needs root: make test runs it"},
		{"nightly, in test", "", "", Nightly, "skip: runs in make nightly"},
		{"nightly, in check", "", "check", Nightly, "skip: runs in make nightly"},
		{"nightly, in nightly", "", "nightly", Nightly, ""},
		{"a tier that nobody knows", "", "nightli", Nightly, `fail: RADAR_TIER: no tier "nightli"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("RADAR_REQUIRE", c.require)
			t.Setenv("RADAR_TIER", c.tier)
			got := run(c.f)
			if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("ended by %q, want %q", got, c.want)
			}
		})
	}
}

func TestAsRoot(t *testing.T) {
	t.Setenv("RADAR_TIER", "test")
	for require, want := range map[string]string{"": "skip: needs root", "root": "fail: needs root"} {
		t.Setenv("RADAR_REQUIRE", require)
		if os.Geteuid() == 0 {
			want = ""
		}
		if got := run(AsRoot); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("RADAR_REQUIRE=%q: ended by %q, want %q", require, got, want)
		}
	}
}

// TestDepends: go test learns what a pass depends on. It reads that from the log that this asks for, too.
func TestDepends(t *testing.T) {
	ask := map[string]func(testing.TB){
		"tier":     func(t testing.TB) { IsCheck(t) },
		"root":     func(t testing.TB) { run(func(testing.TB) { AsRoot(t) }) },
		"programs": func(t testing.TB) { Programs(t, "sh") },
		"tree":     Tree,
		"radar":    Radar,
	}
	if name := os.Getenv("NEED_ASK"); name != "" {
		ask[name](t)
		return
	}
	for name, want := range map[string]string{"tier": "RADAR_MACHINE", "root": "RADAR_MACHINE", "programs": "RADAR_MACHINE", "tree": "RADAR_TREE", "radar": "RADAR_SOURCES"} {
		log := filepath.Join(t.TempDir(), "log")
		cmd := exec.Command(os.Args[0], "-test.run=^TestDepends$", "-test.testlogfile="+log)
		cmd.Env = append(os.Environ(), "NEED_ASK="+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "getenv "+want+"\n") {
			t.Errorf("%s: %v: no %s in\n%s", name, err, want, text)
		}
	}
}
