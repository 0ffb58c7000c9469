// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Find returns the lab of that name, or the one that was started from that folder.
// It returns ErrNotRunning, with the names of those that run, if there is none, and another error if
// the folder runs under several names.
func Find(nameOrDir string) (*Lab, error) {
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
		dir = "" // there is no such folder
	}
	labs, err := List()
	if err != nil {
		return nil, err
	}
	var found []*Lab
	var names, all []string
	for _, l := range labs {
		all = append(all, l.Name)
		if dir != "" && l.Source == dir {
			found, names = append(found, l), append(names, l.Name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && len(all) == 0:
		return nil, fmt.Errorf("%q: %w, and no other one is", nameOrDir, ErrNotRunning)
	case len(found) == 0:
		return nil, fmt.Errorf("%q: %w; those that are: %s", nameOrDir, ErrNotRunning, strings.Join(all, ", "))
	}
	return nil, fmt.Errorf("%s runs several times, as %s: say which", dir, strings.Join(names, ", "))
}
