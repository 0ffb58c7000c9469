// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/cli/clitest"
)

// TestExamples: the programs of docs/api.md say what they are to say.
func TestExamples(t *testing.T) {
	need.Tree(t) // go builds a program
	w := measured(t)
	s := serve(t, "--listen", "0")
	text, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ language, file, want string }{
		{"go", "losses.go", `^10\.0\.1\.1 > 10\.0\.2\.2 lost in r1: NETFILTER_DROP\n$`},
		{"python", "slowest.py", `^\w+/\w+ > \w+/\w+: [0-9.]+ us\n$`},
	} {
		code := regexp.MustCompile("(?s)```" + c.language + "\n(.*?)```").FindSubmatch(text)
		if code == nil {
			t.Fatalf("no program in %s", c.language)
		}
		file := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(file, code[1], 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "python3", file)
		if c.language == "go" {
			cmd = exec.CommandContext(ctx, "go", "run", file)
		}
		cmd.Env = append(os.Environ(), "RADAR_URL="+s.address+"/api/v1/domains/"+w.Domain)
		said := make(chan []byte, 1)
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				out = append(out, err.Error()...)
			}
			said <- out
		}()
		var out []byte
		for out == nil { // the first waits for a loss
			w.In("h1", "bash", "-c", "exec 3<>/dev/udp/10.0.2.2/9999; echo x >&3; sleep 0.1")
			select {
			case out = <-said:
			default:
			}
		}
		if !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("%s says %q", c.file, out)
		}
	}
}
