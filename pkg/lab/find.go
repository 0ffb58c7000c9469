// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Find returns the lab of that name, or the one that was started from that folder.
// It returns ErrNotRunning if there is none, and another error if the folder runs
// under several names.
func Find(nameOrDir string) (*Lab, error) {
	notRunning := fmt.Errorf("%q: %w (see: «lab list»)", nameOrDir, ErrNotRunning)
	if CheckName(nameOrDir) == nil {
		if l, err := Get(nameOrDir); !errors.Is(err, ErrNotRunning) {
			return l, err
		}
	}
	dir, err := filepath.Abs(nameOrDir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // as OpenDir does
	}
	if err != nil {
		return nil, notRunning
	}
	labs, err := List()
	if err != nil {
		return nil, err
	}
	var found []*Lab
	var names []string
	for _, l := range labs {
		if l.Source == dir {
			found, names = append(found, l), append(names, l.Name)
		}
	}
	switch len(found) {
	case 0:
		return nil, notRunning
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%s runs several times, as %s: say which", dir, strings.Join(names, ", "))
}
