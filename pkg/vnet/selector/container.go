// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/selector/docker"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// docker adds the container or containers that rest, behind "docker:", means.
func (r *resolver) docker(ctx context.Context, selector, name, rest string) error {
	e, err := r.containers(ctx)
	if err != nil {
		return err
	}
	label, byLabel := strings.CutPrefix(rest, "label=")
	switch {
	case rest == "*":
		return r.many(ctx, e, selector, "no container runs")
	case byLabel && label == "":
		return fault.Usage.Errorf("%s: write docker:label=KEY or docker:label=KEY=VALUE", selector)
	case byLabel:
		return r.many(ctx, e, selector, fmt.Sprintf("no container with label %s runs", label), label)
	}
	c, err := e.Find(ctx, rest)
	if errors.Is(err, docker.ErrNoContainer) {
		return r.notYet(selector, "no such container; "+running(ctx, e, "docker:", containerName))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", selector, err)
	}
	return r.one(selector, name, c.Name, c)
}

// containerName is how containers are listed for the user.
func containerName(c docker.Container) string { return c.Name }

// one adds a container that the user named: name is what the user wants the node
// to be called, fallback what it is called by itself.
func (r *resolver) one(selector, name, fallback string, c *docker.Container) error {
	_, spec, _ := topo.SplitName(selector)
	switch {
	case c.HostNetwork:
		return fault.Usage.Errorf("%s: container %s uses the host's network, not one of its own (netns:host names the host)", selector, c.Name)
	case c.Joined != "":
		return fault.Usage.Errorf("%s: container %s uses the network of container %s: name docker:%s instead", selector, c.Name, c.Joined, c.Joined)
	case !c.Runs():
		return r.notYet(selector, fmt.Sprintf("container %s does not run (it is %s): start it with docker start %s", c.Name, c.State, c.Name))
	}
	if name == "" {
		name = fallback
	}
	s, err := topo.ProcessSpec(name, spec, c.PID)
	if err != nil {
		return err
	}
	if s.IsHost() {
		return fault.Usage.Errorf("%s: container %s uses the host's network, not one of its own (netns:host names the host)", selector, c.Name)
	}
	r.result.Nodes = append(r.result.Nodes, s)
	return nil
}

// notYet is an error, or, for who waits, a note.
func (r *resolver) notYet(selector, why string) error {
	if !r.req.Wait {
		return fault.Usage.Errorf("%s: %s", selector, why)
	}
	r.notef("%s: %s; it joins when it starts", selector, why)
	return nil
}

// many adds all containers that run, have a network of their own and all of the
// labels. none says that there is none.
func (r *resolver) many(ctx context.Context, e *docker.Engine, selector, none string, labels ...string) error {
	found, err := e.List(ctx, false, labels...)
	if err != nil {
		return fmt.Errorf("%s: %w", selector, err)
	}
	if len(found) == 0 {
		return r.notYet(selector, none)
	}
	slices.SortFunc(found, func(a, b *docker.Container) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range found {
		r.addContainer(c)
	}
	return nil
}

// addContainer adds a container that was found in bulk.
func (r *resolver) addContainer(c *docker.Container) {
	s, err := topo.ProcessSpec(shortID(c), specOf(c), c.PID)
	switch {
	case c.HostNetwork, err == nil && s.IsHost():
		r.notef("container %s is left out: it uses the host's network", c.Name)
	case c.Joined != "":
		r.notef("container %s is left out: it uses the network of container %s", c.Name, c.Joined)
	case err == nil: // else it has just ended
		r.add(s, namesOf(c)...)
	}
}

// namesOf are the names for a container's node, the best first.
func namesOf(c *docker.Container) []string {
	names := []string{c.Name, shortID(c)}
	if c.Labels[labelApp] == katharaApp && c.Labels[labelMachine] != "" {
		names = slices.Insert(names, 0, c.Labels[labelMachine])
	}
	return names
}

// shortID is the id as docker prints it.
func shortID(c *docker.Container) string { return c.ID[:min(len(c.ID), 12)] }

// specOf is how a user would name the container.
func specOf(c *docker.Container) string {
	if c.Labels[labelApp] == katharaApp && c.Labels[labelMachine] != "" {
		return "kathara:" + c.Labels[labelLab] + "/" + c.Labels[labelMachine]
	}
	return "docker:" + c.Name
}

// running says which containers there are, so that the user can choose: prefix is
// what to write in front of their names.
func running(ctx context.Context, e *docker.Engine, prefix string, name func(docker.Container) string, labels ...string) string {
	found, err := e.Names(ctx, labels...)
	if err != nil || len(found) == 0 {
		return "none runs"
	}
	const most = 20
	var names []string
	for _, c := range found {
		names = append(names, prefix+name(c))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return "running: " + strings.Join(names, ", ")
}
