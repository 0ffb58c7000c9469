// SPDX-License-Identifier: Apache-2.0

// Package selector turns what a user writes into network namespaces, each under the
// name by which the user knows it. What is written is a selector:
//
//	netns:NAME  netns:/path  netns:host  pid:N        a namespace, see topo.ParseSpec
//	docker:NAME                                       a container, by name or id
//	kathara:NAME  kathara:LAB/NAME                    a machine of a Kathará lab
//
// with "name=" in front to give the node another name; or one that stands for
// many, in bulk:
//
//	docker:label=KEY  docker:label=KEY=VALUE          containers with that label
//	docker:*  kathara:*  kathara:LAB/*                all that run
//	lab:NAME                                          the machines of one of radar's labs
//	netns:*                                           every namespace but the host's
//
// LAB is the hash that Kathará gives a lab. Selectors are text, so that a domain
// can keep them: the same ones find the containers that start later.
package selector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/vnet/selector/docker"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Selectors in bulk that stand for flags of the command line.
const (
	AllContainers = "docker:*"
	AllNamespaces = "netns:*"
)

// Request says which namespaces are wanted.
type Request struct {
	Selectors []string
	// Known are the nodes that are there already: what selectors find in bulk does
	// not name them again.
	Known []topo.NodeSpec
	// Wait: what cannot be attached now, and may later, is a note, not an error.
	Wait bool
}

// Result is what was found.
type Result struct {
	Nodes []topo.NodeSpec
	// Named is how many of the nodes, which come first, were named one by one.
	Named int
	Notes []string // full sentences: what was left out, and why
}

// Resolve finds the namespaces. A namespace that two selectors find is there once,
// under the name that the user gave it first; one that is named twice is there
// twice, which topo.Discover refuses. What the user must write differently is
// fault.Usage; without an engine, for selectors that need one, the error is
// docker.ErrNoEngine.
func Resolve(ctx context.Context, req Request) (*Result, error) {
	r := &resolver{req: req, result: &Result{}}
	defer r.close()
	for _, n := range req.Known {
		ns, err := n.Open()
		if errors.Is(err, topo.ErrGone) {
			continue // its name and its number are free
		}
		if err == nil {
			ns.Close()
		}
		r.known = append(r.known, n)
	}
	// Names that the user gave win over those found in bulk, wherever they stand.
	for _, bulk := range []bool{false, true} {
		for _, selector := range req.Selectors {
			if inBulk(selector) != bulk {
				continue
			}
			if err := r.resolve(ctx, selector); err != nil {
				return nil, err
			}
		}
		if !bulk {
			r.result.Named = len(r.result.Nodes)
		}
	}
	return r.result, nil
}

// inBulk reports whether a selector can stand for many namespaces.
func inBulk(selector string) bool {
	kind, rest, _ := strings.Cut(selector, ":")
	return kind == "lab" || strings.HasPrefix(selector, "docker:label=") ||
		rest == "*" || kind == "kathara" && strings.HasSuffix(rest, "/*")
}

// OfContainers returns those of the selectors that containers can match, for
// finding the ones that start later: those that name one come first.
func OfContainers(selectors []string) []string {
	var found, bulk []string
	for _, s := range selectors {
		_, spec, err := topo.SplitName(s)
		switch {
		case err != nil:
		case s == AllNamespaces:
			bulk = append(bulk, AllContainers)
		case !ofContainers(spec):
		case inBulk(spec):
			bulk = append(bulk, s)
		default:
			found = append(found, s)
		}
	}
	return append(found, bulk...)
}

func ofContainers(spec string) bool {
	return strings.HasPrefix(spec, "docker:") || strings.HasPrefix(spec, "kathara:")
}

// resolver is one call of Resolve.
type resolver struct {
	req    Request
	known  []topo.NodeSpec
	result *Result
	engine *docker.Engine // once it was needed
}

func (r *resolver) close() {
	if r.engine != nil {
		r.engine.Close()
	}
}

// containers returns the engine, to which it connects once.
func (r *resolver) containers(ctx context.Context) (*docker.Engine, error) {
	if r.engine != nil {
		return r.engine, nil
	}
	var err error
	r.engine, err = docker.Connect(ctx)
	return r.engine, err
}

func (r *resolver) notef(format string, args ...any) {
	r.result.Notes = append(r.result.Notes, fmt.Sprintf(format, args...))
}

func (r *resolver) resolve(ctx context.Context, selector string) error {
	name, spec, err := topo.SplitName(selector)
	if err != nil {
		return err
	}
	if name != "" && inBulk(spec) {
		return fault.Usage.Errorf("%s: the name %q cannot be given to many nodes: leave \"%s=\" out", selector, name, name)
	}
	kind, rest, ok := strings.Cut(spec, ":")
	switch {
	case ok && rest != "" && kind == "docker":
		return r.docker(ctx, selector, name, rest)
	case ok && rest != "" && kind == "kathara":
		return r.kathara(ctx, selector, name, rest)
	case ok && rest != "" && kind == "lab":
		return r.lab(rest)
	case spec == AllNamespaces:
		return r.all(ctx)
	case !ok:
		return r.unknown(ctx, spec)
	}
	s, err := topo.ParseSpec(selector)
	if err != nil {
		return err
	}
	r.result.Nodes = append(r.result.Nodes, s)
	return nil
}

// unknown says what a word without a kind could mean.
func (r *resolver) unknown(ctx context.Context, word string) error {
	var meant []string
	if slices.Contains(topo.Named(), word) {
		meant = append(meant, "netns:"+word)
	}
	ctx, cancel := context.WithTimeout(ctx, quickTime)
	defer cancel()
	if slices.Contains(choicesOf(ctx, "docker:"), "docker:"+word) {
		meant = append(meant, "docker:"+word)
	}
	if slices.Contains(choicesOf(ctx, "kathara:"), "kathara:"+word) {
		meant = append(meant, "kathara:"+word)
	}
	if l, err := lab.Find(word); err == nil {
		meant = append(meant, "‹lab› "+l.Name)
	}
	if len(meant) == 0 {
		_, err := topo.ParseSpec(word) // it lists the kinds
		return err
	}
	return fault.Usage.Errorf("node %q: did you mean %s?", word, strings.Join(meant, " or "))
}

// lab adds the machines of one of radar's own labs.
func (r *resolver) lab(name string) error {
	l, err := lab.Get(name)
	if errors.Is(err, lab.ErrNotRunning) {
		return fault.Usage.Errorf("%v (see: «lab list»)", err)
	}
	if err != nil {
		return err
	}
	if l.Status != lab.Running {
		return fmt.Errorf("lab %s is %s: take it down with «lab down %s» and start it again", name, l.Status, name)
	}
	for _, arg := range l.AttachArgs() {
		s, err := topo.ParseSpec(arg)
		if err != nil {
			return err
		}
		r.add(s, s.Name)
	}
	return nil
}

// add adds a namespace that was found in bulk, unless it is there already. The
// node gets the first of the names that is free.
func (r *resolver) add(s topo.NodeSpec, names ...string) {
	same := func(n topo.NodeSpec) bool { return n.Inum == s.Inum }
	if slices.ContainsFunc(r.known, same) || slices.ContainsFunc(r.result.Nodes, same) {
		return
	}
	s.Name = names[0] // if none is free, topo.Discover says what to do
	for _, name := range names {
		if topo.CheckNodeName(name) == nil && !r.taken(name) {
			s.Name = name
			break
		}
	}
	r.result.Nodes = append(r.result.Nodes, s)
}

func (r *resolver) taken(name string) bool {
	same := func(n topo.NodeSpec) bool { return n.Name == name }
	return slices.ContainsFunc(r.known, same) || slices.ContainsFunc(r.result.Nodes, same)
}
