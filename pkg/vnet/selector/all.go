// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/vnet/selector/docker"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// all adds every namespace that can be reached, except the host's: under the name
// that "ip netns" has for it, else the container's, else pid-N of a process in it.
func (r *resolver) all(ctx context.Context) error {
	found, err := topo.Namespaces()
	if err != nil {
		return err
	}
	containers, err := r.byNamespace(ctx)
	if err != nil {
		return err
	}
	// In an order that says which name wins, whatever the numbers of processes.
	slices.SortFunc(found, func(a, b topo.NodeSpec) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Spec, b.Spec))
	})
	for _, s := range found {
		_, name, _ := strings.Cut(s.Spec, ":")
		names := []string{filepath.Base(name)}
		if rank(s) == unnamed {
			names[0] = "pid-" + name
		}
		if c := containers[s.Inum]; c != nil && rank(s) != named {
			s.Spec, s.Path = specOf(c), fmt.Sprintf("/proc/%d/ns/net", c.PID)
			names = append(namesOf(c), names...)
		}
		r.add(s, names...)
	}
	return nil
}

// SelectorsOf returns selectors that name these namespaces, as far as one is known: the container's before that of a process.
// Where the engine of containers does not answer soon, a process stands for a container.
func SelectorsOf(ctx context.Context, specs []topo.NodeSpec) (selectors []string) {
	ctx, cancel := context.WithTimeout(ctx, quickTime)
	defer cancel()
	r := &resolver{result: &Result{}}
	defer r.close()
	var containers map[uint32]*docker.Container
	if slices.ContainsFunc(specs, func(s topo.NodeSpec) bool { return !s.IsHost() && rank(s) != named }) {
		containers, _ = r.byNamespace(ctx)
	}
	for _, s := range specs {
		text := s.Spec
		if c := containers[s.Inum]; c != nil && rank(s) != named {
			text = specOf(c)
		}
		if !slices.Contains(selectors, text) {
			selectors = append(selectors, text)
		}
	}
	return selectors
}

// How well a namespace is known: by a name of "ip netns", by a path, by a process.
const (
	named = iota
	mounted
	unnamed
)

func rank(s topo.NodeSpec) int {
	name, mount := strings.CutPrefix(s.Spec, "netns:")
	switch {
	case !mount:
		return unnamed
	case strings.HasPrefix(name, "/"):
		return mounted
	}
	return named
}

// byNamespace returns the containers that have a network of their own, by the
// inode number of their namespace. Without an engine there is none.
func (r *resolver) byNamespace(ctx context.Context) (map[uint32]*docker.Container, error) {
	e, err := r.containers(ctx)
	if errors.Is(err, docker.ErrNoEngine) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := e.List(ctx, false)
	if err != nil {
		return nil, err
	}
	found := make(map[uint32]*docker.Container)
	for _, c := range list {
		if c.HostNetwork || c.Joined != "" {
			continue
		}
		if s, err := topo.ProcessSpec(shortID(c), specOf(c), c.PID); err == nil {
			found[s.Inum] = c
		}
	}
	return found, nil
}
