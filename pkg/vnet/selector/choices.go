// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/vnet/selector/docker"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// kinds are the beginnings of selectors that name one node.
var kinds = []string{"docker:", "kathara:", "netns:", "pid:"}

// Choices returns the selectors that begin with what a user has written: kinds
// first, and the names of one kind once it is written. Whatever does not answer
// before ctx ends is left out.
func Choices(ctx context.Context, begin string) []string {
	name, spec, err := topo.SplitName(begin)
	if err != nil {
		return nil
	}
	prefix := ""
	if name != "" {
		prefix = name + "="
	}
	var found []string
	for _, s := range choicesOf(ctx, spec) {
		if strings.HasPrefix(s, spec) {
			found = append(found, prefix+s)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func choicesOf(ctx context.Context, spec string) []string {
	kind, _, written := strings.Cut(spec, ":")
	switch {
	case !written:
		return kinds
	case kind == "netns":
		found := []string{"netns:host"}
		for _, s := range topo.Named() {
			found = append(found, "netns:"+s)
		}
		return found
	case kind == "docker":
		return names(ctx, func(c docker.Container) string { return "docker:" + c.Name })
	case kind == "kathara":
		return names(ctx, func(c docker.Container) string { return "kathara:" + c.Labels[labelMachine] }, labelApp+"="+katharaApp)
	}
	return nil
}

// names lists the containers that run.
func names(ctx context.Context, selector func(docker.Container) string, labels ...string) (found []string) {
	e, err := docker.Connect(ctx)
	if err != nil {
		return nil
	}
	defer e.Close()
	containers, err := e.Names(ctx, labels...)
	if err != nil {
		return nil
	}
	for _, c := range containers {
		found = append(found, selector(c))
	}
	return found
}
