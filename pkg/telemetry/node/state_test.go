// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"os"
	"testing"
)

// What a killed process has left of a file that it was to replace goes with the domain.
func TestRemoveState(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	unlock, err := Lock("d")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	for _, name := range []string{"domain.json", ".domain.json5577006791947779410", "agent.log"} {
		if err := os.WriteFile(File("d", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removeState("d")
	if _, err := os.Lstat(parentDir("d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", parentDir("d"), err)
	}
}
