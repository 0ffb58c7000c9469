// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// starts matches tests that start programs.
	starts = regexp.MustCompile(`"os/exec"`)
	// reads matches a program that reads files of this repository, or a name of such a file.
	reads = regexp.MustCompile(`exec\.Command(Context)?\((\w+, )?"(git|go|make|node|patch)"|"[\w./-]+\.(js|lua|mjs|py|sh)"[,)]|lua_script:[\w.]`)
	// saysSo matches tests that say so.
	saysSo = regexp.MustCompile(`need\.(Tree|Radar)\(|radarbin\.(Path|Build)\(`)
	// asks matches tests that say what they need, or take it from a package that does.
	asks = regexp.MustCompile(`radar/(lab/test/(need|nstest|servers|dockertest|radarbin)|pkg/cli/clitest)"`)
	// itself matches a test that starts itself, anything one that starts any program.
	itself   = regexp.MustCompile(`exec\.Command(Context)?\((\w+, )?(os\.Args\[0\]|"/proc/self/exe")`)
	anything = regexp.MustCompile(`exec\.Command(Context)?\(`)
)

// TestPasses: go test takes an earlier pass for the present one where it sees no difference (package need). Tests that start
// programs say what it cannot see.
func TestPasses(t *testing.T) {
	tests := make(map[string][]byte) // of each package
	for _, path := range sources(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if dir := filepath.Dir(path); starts.Match(text) || saysSo.Match(text) || asks.Match(text) {
			tests[dir] = append(tests[dir], text...)
		}
	}
	for dir, text := range tests {
		if !starts.Match(text) {
			continue
		}
		if found := reads.Find(text); found != nil && !saysSo.Match(text) {
			t.Errorf("%s: a test starts what reads files of this repository (%s): it calls need.Tree, else a pass is kept when they change", dir, found)
		}
		if !asks.Match(text) && len(anything.FindAll(text, -1)) > len(itself.FindAll(text, -1)) {
			t.Errorf("%s: a test starts programs, and asks package need for nothing: a pass is kept when they change", dir)
		}
	}
}
