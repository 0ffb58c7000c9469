// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/selector/docker"
)

// What Kathará (3.8) writes on its containers.
const (
	labelApp     = "app"
	katharaApp   = "kathara"
	labelMachine = "name"
	labelLab     = "lab_hash"
	labelUser    = "user"
)

// kathara adds the machine or machines that rest, behind "kathara:", means.
func (r *resolver) kathara(ctx context.Context, selector, name, rest string) error {
	e, err := r.containers(ctx)
	if err != nil {
		return err
	}
	hash, machine, ofLab := strings.Cut(rest, "/")
	if !ofLab {
		hash, machine = "", rest
	}
	labels := []string{labelApp + "=" + katharaApp}
	if hash != "" {
		labels = append(labels, labelLab+"="+hash)
	}
	if machine == "*" {
		return r.many(ctx, e, selector, "no machine of such a Kathará lab runs", labels...)
	}
	found, err := e.List(ctx, true, append(labels, labelMachine+"="+machine)...)
	if err != nil {
		return fmt.Errorf("%s: %w", selector, err)
	}
	if live := slices.DeleteFunc(slices.Clone(found), func(c *docker.Container) bool { return !c.Runs() }); len(live) > 0 {
		found = live
	}
	switch len(found) {
	case 0:
		return r.notYet(selector, "no such machine in a Kathará lab; "+running(ctx, e, "kathara:", machineName, labels...))
	case 1:
		return r.one(selector, name, machine, found[0])
	}
	return fault.Usage.Errorf("%s: several machines are called so, write %s", selector, choices(found))
}

// machineName is how machines are listed for the user.
func machineName(c docker.Container) string { return c.Labels[labelMachine] }

// choices says how to name each of several machines with one name.
func choices(found []*docker.Container) string {
	var names []string
	for _, c := range found {
		same := func(o *docker.Container) bool { return o != c && o.Labels[labelLab] == c.Labels[labelLab] }
		spec := specOf(c)
		if slices.ContainsFunc(found, same) { // one lab, started by several users
			spec = "docker:" + c.Name
		}
		names = append(names, fmt.Sprintf("%s (of user %s)", spec, c.Labels[labelUser]))
	}
	slices.Sort(names)
	return strings.Join(names, " or ")
}

// confFile makes a folder a lab.
const confFile = "lab.conf"

// katharaHash is the hash that Kathará gives to the lab in a folder: of LAB_NAME
// in its lab.conf, if there is one, else of the folder's real path.
func katharaHash(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find lab folder: %w", err)
	}
	conf, err := os.ReadFile(filepath.Join(dir, confFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read lab folder: %w", err)
	}
	name := dir
	for line := range strings.Lines(string(conf)) {
		if value, ok := strings.CutPrefix(line, "LAB_NAME="); ok {
			name = strings.TrimSpace(strings.NewReplacer(`"`, "", `'`, "").Replace(value))
		}
	}
	return hashOf(name), nil
}

// hashOf is Kathará's hash of a lab's name or path: MD5 of its ASCII part, in
// base64 without what a name in Docker cannot have.
func hashOf(name string) string {
	var ascii []byte
	for i := range len(name) {
		if name[i] < 0x80 {
			ascii = append(ascii, name[i])
		}
	}
	sum := md5.Sum(ascii)
	return strings.NewReplacer("-", "", "_", "").Replace(base64.RawURLEncoding.EncodeToString(sum[:]))
}
