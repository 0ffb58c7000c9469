// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestHostileName: the name of an interface that holds an escape sequence reaches no terminal as
// such, neither in tables nor in messages; JSON has it as it is.
func TestHostileName(t *testing.T) {
	const name, shown = "e\x1b[2J\u009b\u202e", `e\u001b[2J\u009b\u202e`
	need.AsRoot(t)
	n := nstest.New(t, "a", "b")
	n.Veth("a", name, "b", "e0")
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	t.Setenv("RADAR_DOMAIN", nstest.Unique())
	t.Setenv("RADAR_SLOTS", "64K")
	t.Setenv(clitest.ExecEnv, "1")
	nstest.Cleanup(t, func() { clitest.Radar(t, "detach", "--no-drain") })
	attach := []string{"attach", "-d", n.Spec("a"), n.Spec("b")}
	told := 0
	for _, c := range []struct {
		code int
		args []string
	}{
		{kit.ExitUsage, append(attach, "--role", "a/"+name+"x=edge")},
		{kit.ExitOK, attach},
		{kit.ExitOK, []string{"topo"}},
		{kit.ExitOK, []string{"status", "-o", "wide"}},
		{kit.ExitOK, []string{"topo", "-o", "dot"}},
	} {
		stdout, stderr, code := clitest.Radar(t, c.args...)
		if code != c.code {
			t.Errorf("%q: code %d, %s%s", c.args, code, stdout, stderr)
		}
		for _, r := range stdout + stderr {
			if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
				t.Errorf("%q prints %q: %s%s", c.args, r, stdout, stderr)
				break
			}
		}
		told += strings.Count(stdout+stderr, shown)
	}
	if told == 0 {
		t.Error("nothing told the name")
	}
	stdout, _, _ := clitest.Radar(t, "topo", "-o", "json")
	if b, err := json.Marshal(name); err != nil || !strings.Contains(stdout, string(b)) {
		t.Errorf("JSON has no %s: %s", b, stdout)
	}
}
