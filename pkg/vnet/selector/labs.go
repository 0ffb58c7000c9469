// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/vnet/selector/docker"
)

// LabSelector returns the selector of all machines of a lab that runs: one of
// radar's own or of Kathará's, given as the folder that it was started from or as
// its name. If none runs, the error is fault.Usage and says which do.
func LabSelector(ctx context.Context, nameOrDir string) (string, error) {
	l, err := lab.Find(nameOrDir)
	if err == nil {
		return "lab:" + l.Name, nil
	}
	if !errors.Is(err, lab.ErrNotRunning) {
		return "", fmt.Errorf("find lab: %w", err)
	}
	e, err := docker.Connect(ctx)
	if err != nil && (!errors.Is(err, docker.ErrNoEngine) || errors.Is(err, fs.ErrPermission)) {
		return "", fmt.Errorf("find Kathará labs: %w", err)
	}
	if err != nil {
		return "", noLab(nameOrDir, nil, err)
	}
	defer e.Close()
	machines, err := e.Names(ctx, labelApp+"="+katharaApp)
	if err != nil {
		return "", err
	}
	hashes, err := labHashes(nameOrDir)
	if err != nil {
		return "", err
	}
	for _, c := range machines {
		if hash := c.Labels[labelLab]; slices.Contains(hashes, hash) {
			return "kathara:" + hash + "/*", nil
		}
	}
	return "", noLab(nameOrDir, machines, nil)
}

// labHashes are the hashes that a Kathará lab given so can have.
func labHashes(nameOrDir string) ([]string, error) {
	hashes := []string{nameOrDir, hashOf(nameOrDir)}
	if st, err := os.Stat(nameOrDir); err != nil || !st.IsDir() {
		return hashes, nil
	}
	ofDir, err := katharaHash(nameOrDir)
	return append(hashes, ofDir), err
}

// noLab says that no lab of that name or folder runs, and which do. noEngine says
// why Kathará's are not known.
func noLab(nameOrDir string, machines []docker.Container, noEngine error) error {
	var names []string
	labs, _ := lab.List()
	for _, l := range labs {
		names = append(names, l.Name)
	}
	for _, c := range machines {
		if name := c.Labels[labelLab] + " (Kathará)"; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	there := "none runs"
	if len(names) > 0 {
		there = "running: " + strings.Join(names, ", ")
	}
	if noEngine != nil {
		there += fmt.Sprintf("; of Kathará's nothing is known: %v", noEngine)
	}
	if _, err := os.Stat(filepath.Join(nameOrDir, confFile)); err == nil {
		return fault.Usage.Errorf("no lab started from %s runs: start it with «lab up» or kathara lstart (%s)", nameOrDir, there)
	}
	return fault.Usage.Errorf("no lab %s: give the name of one that runs, or the folder that it was started from (%s)", nameOrDir, there)
}

// quickTime bounds questions whose answer is only a help.
const quickTime = time.Second

// LabHere returns the name, for the user, of a lab that was started from the
// folder and runs; "" if there is none, or that cannot be found out at once.
func LabHere(ctx context.Context, dir string) string {
	if l, err := lab.Find(dir); err == nil {
		return l.Name
	}
	if _, err := os.Stat(filepath.Join(dir, confFile)); err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, quickTime)
	defer cancel()
	if _, err := LabSelector(ctx, dir); err != nil {
		return ""
	}
	return filepath.Base(dir)
}
