// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Find returns the lab of that name, or else the one that was started from that folder. If there is none, the error is
// ErrNotRunning, with the names of those that run. If several were started from the folder, the error names them.
func Find(nameOrDir string) (*Lab, error) {
	isName := CheckName(nameOrDir) == nil
	if isName {
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
	case len(found) > 1:
		return nil, fmt.Errorf("%s runs several times, as %s: say which", dir, strings.Join(names, ", "))
	case err != nil && !isName: // one that cannot be read may be of the folder
		return nil, err
	case len(all) == 0:
		return nil, fmt.Errorf("%q: %w; none does", nameOrDir, ErrNotRunning)
	}
	return nil, fmt.Errorf("%q: %w; those that do: %s", nameOrDir, ErrNotRunning, strings.Join(all, ", "))
}
