// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"iter"
	"path/filepath"
	"strconv"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system"
)

// identify returns the inode number of the network namespace at path.
func identify(path string) (uint32, error) {
	ns, inum, err := host.OpenNetns(path)
	if err != nil {
		return 0, err
	}
	ns.Close()
	return inum, nil
}

// Host returns the host's own namespace, as node "host".
func Host() NodeSpec {
	own := host.OwnNetns()
	return NodeSpec{Place: system.Place{Name: "host", Spec: hostSpec, Path: own.Path, Inum: own.Inum}}
}

// Namespaces finds every network namespace that can be reached by a name or a
// process, except the host's, each once. Its specs have no node names. After an error, of no more files that can be
// opened, some are missing.
func Namespaces() (specs []NodeSpec, err error) {
	for spec, err := range namespaces() {
		if err != nil {
			return specs, fmt.Errorf("find network namespaces: %w", err)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// namespaces is Namespaces one by one, those with a name first: to look at every
// process takes a while.
func namespaces() iter.Seq2[NodeSpec, error] {
	return func(yield func(NodeSpec, error) bool) {
		for file, err := range host.Namespaces() {
			if err != nil {
				yield(NodeSpec{}, err)
				return
			}
			if file.Inum != host.OwnNetns().Inum && !yield(NodeSpec{Place: system.Place{Spec: specOf(file.Path), Path: file.Path, Inum: file.Inum}}, nil) {
				return
			}
		}
	}
}

func specOf(path string) string {
	if dir, name := filepath.Split(path); filepath.Clean(dir) == netnsDir {
		return "netns:" + name
	}
	var pid int
	if _, err := fmt.Sscanf(path, "/proc/%d/ns/net", &pid); err == nil {
		return "pid:" + strconv.Itoa(pid)
	}
	return "netns:" + path
}
