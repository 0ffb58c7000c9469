// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// TestMutantsApply: every bug of lab/test/mutants can still be put in. Else make mutants would find
// that out, which few run, and what the mutant was to show would no longer be shown.
func TestMutantsApply(t *testing.T) {
	need.Programs(t, "patch:patch")
	need.Tree(t)
	patches, err := filepath.Glob(root + "/lab/test/mutants/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	for _, path := range patches {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("patch", "--dry-run", "-s", "-p1", "-F0") // as lab/test/mutants/run.sh does
		cmd.Dir, cmd.Stdin = root, file
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not apply:\n%s", filepath.Base(path), out)
		}
		file.Close()
	}
}
