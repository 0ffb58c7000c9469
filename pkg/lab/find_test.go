// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A lab whose description cannot be read is no reason to say anything else of others.
func TestFindBesideDamaged(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(stateDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"bad": "{", "good": fmt.Sprintf(`{"version":%d,"name":"good","source":%q}`, stateVersion, folder)} {
		if err := os.WriteFile(stateFile(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Find("nosuch"); !errors.Is(err, ErrNotRunning) || err.Error() != `"nosuch": no such lab runs; those that do: good` {
		t.Error(err)
	}
	for _, which := range []string{"good", folder} {
		if l, err := Find(which); err != nil || l.Name != "good" {
			t.Errorf("%s: %v", which, err)
		}
	}
	for _, which := range []string{"bad", t.TempDir()} { // it may be of the folder
		if _, err := Find(which); err == nil || errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: %v", which, err)
		}
	}
	if labs, err := List(); err == nil || len(labs) != 1 {
		t.Errorf("%v, %v", labs, err)
	}
}
