// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// engine is the package that holds DuckDB, whose library makes each program that is linked with it 68 MB larger, and its link some two seconds longer.
const engine = "pkg/store/query/engine"

// asking are the packages whose programs answer SQL, or whose tests ask it.
var asking = []string{"cmd/radar", "pkg/cli/record", "pkg/cli/sql", engine}

// TestEngine: DuckDB is linked into radar, and into the tests that ask SQL, but into no other test.
func TestEngine(t *testing.T) {
	need.Tree(t)
	cmd := exec.Command("go", "list", "-deps", "-test", "-f", `{{.ImportPath}}:{{join .Deps " "}}`, "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	for line := range strings.Lines(string(out)) {
		name, deps, _ := strings.Cut(strings.TrimPrefix(line, module), ":")
		deps = strings.ReplaceAll(strings.TrimSpace(deps), module, "")
		// A program is one of cmd, or the one of a package's tests, which is called PACKAGE.test.
		of, test := strings.CutSuffix(name, ".test")
		if (test || strings.HasPrefix(name, "cmd/")) && slices.Contains(strings.Fields(deps), engine) {
			linked = append(linked, of)
		}
	}
	slices.Sort(linked)
	if linked = slices.Compact(linked); !slices.Equal(linked, asking) {
		t.Errorf("linked with DuckDB: %q, want %q", linked, asking)
	}
}
