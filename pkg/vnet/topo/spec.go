// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// NodeSpec is a network namespace that is a node, or is to be one.
type NodeSpec struct{ system.Place }

// SpecOf is the spec of a node that a domain describes.
func SpecOf(n domain.Node) NodeSpec {
	return NodeSpec{system.Place{Name: n.Name, Spec: n.Spec, Path: n.Path, Inum: n.Inum}}
}

// SpecsOf returns those of the nodes that are still there, in their order.
func SpecsOf(nodes []domain.Node) (specs []NodeSpec) {
	for _, n := range nodes {
		if !n.Removed {
			specs = append(specs, SpecOf(n))
		}
	}
	return specs
}

// netnsDir is where `ip netns` keeps its namespaces.
const netnsDir = "/run/netns"

// hostSpec names the host's own namespace, and nothing else does: it has the
// interfaces of this machine, which nobody should attach by accident.
const hostSpec = "netns:host"

var nodeNameRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,62}$`)

// ParseSpec reads how a user names a namespace that the kernel alone knows:
// "netns:NAME", "netns:/path", "netns:host" (the host's own) or "pid:N", with
// "name=" in front to give the node another name than NAME, the last part of the
// path or "pid-N". The namespace must exist; the host's own is refused under
// every other name. What it refuses is fault.Usage.
func ParseSpec(arg string) (NodeSpec, error) {
	name, spec, err := SplitName(arg)
	if err != nil {
		return NodeSpec{}, err
	}
	s := NodeSpec{system.Place{Name: name, Spec: spec}}
	fallback, err := s.locate()
	if err != nil {
		return NodeSpec{}, err
	}
	if s.Name == "" {
		s.Name = fallback
	}
	if err := s.identify(); err != nil {
		return NodeSpec{}, err
	}
	if s.IsHost() && spec != hostSpec {
		return NodeSpec{}, fault.Usage.Errorf("node %s is the host's own network namespace: name the namespaces of the virtual network, or the host as %s", s.Spec, hostSpec)
	}
	return s, nil
}

// SplitName cuts "name=" off what a user wrote. The name, "" if there is none,
// ends at the first '=' if that comes before the ':' of the kind.
func SplitName(arg string) (name, spec string, err error) {
	eq := strings.IndexByte(arg, '=')
	if eq < 0 || eq > strings.IndexByte(arg, ':') {
		return "", arg, nil
	}
	if eq == 0 {
		return "", "", fault.Usage.Errorf("node %q: the name before '=' is empty", arg)
	}
	return arg[:eq], arg[eq+1:], nil
}

// CheckNodeName refuses names that a node cannot have, with fault.Usage.
func CheckNodeName(name string) error {
	if !nodeNameRE.MatchString(name) {
		return fault.Usage.Errorf("node name %q: use 1 to 63 letters, digits, '_', '.', ':', '@' or '-', the first a letter, digit or '_'", name)
	}
	return nil
}

// identify checks the node's name and finds out which namespace is at its path.
func (s *NodeSpec) identify() (err error) {
	if err := CheckNodeName(s.Name); err != nil {
		return fault.Usage.Errorf("%v (give one with name=%s)", err, s.Spec)
	}
	if s.Inum, err = identify(s.Path); err != nil {
		return s.explain(err)
	}
	return nil
}

// ProcessSpec is the namespace of a process that somebody else has named: name is
// the node's, spec what the user named it by. It may be the host's: ask IsHost.
// What it refuses is fault.Usage.
func ProcessSpec(name, spec string, pid int) (NodeSpec, error) {
	s := NodeSpec{system.Place{Name: name, Spec: spec, Path: processPath(pid)}}
	return s, s.identify()
}

func processPath(pid int) string { return fmt.Sprintf("/proc/%d/ns/net", pid) }

// specKinds is what a user may write, for messages.
const specKinds = "netns:NAME, netns:/path, netns:host, pid:N, docker:NAME or kathara:NAME"

// locate sets Path from Spec and returns the node's default name.
func (s *NodeSpec) locate() (name string, err error) {
	scheme, rest, ok := strings.Cut(s.Spec, ":")
	if !ok || rest == "" {
		return "", fault.Usage.Errorf("node %q: write %s", s.Spec, specKinds)
	}
	switch scheme {
	case "netns":
		if s.Spec == hostSpec {
			s.Path = host.OwnNetns().Path
			return rest, nil
		}
		if strings.HasPrefix(rest, "/") {
			s.Path = filepath.Clean(rest)
			return filepath.Base(s.Path), nil
		}
		if strings.Contains(rest, "/") || rest == "." || rest == ".." {
			return "", fault.Usage.Errorf("node %q: a namespace's name has no '/'; a path starts with one", s.Spec)
		}
		s.Path = filepath.Join(netnsDir, rest)
		return rest, nil
	case "pid":
		pid, err := strconv.ParseUint(rest, 10, 31)
		if err != nil || pid == 0 {
			return "", fault.Usage.Errorf("node %q: %q is no process id", s.Spec, rest)
		}
		s.Path = processPath(int(pid))
		return fmt.Sprintf("pid-%d", pid), nil
	}
	return "", fault.Usage.Errorf("node %q: unknown kind %q, write %s", s.Spec, scheme, specKinds)
}

// explain turns a failure to open the namespace into what the user should do.
func (s *NodeSpec) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(s.Path, "/proc/"):
		return fault.Usage.Errorf("node %s: no such process", s.Spec)
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(s.Path) == netnsDir:
		return fault.Usage.Errorf("node %s: no such namespace%s; %s", s.Spec, fault.Meant(strings.TrimPrefix(s.Spec, "netns:"), Named()), listNamed())
	case errors.Is(err, fs.ErrNotExist):
		return fault.Usage.Errorf("node %s: no such file", s.Spec)
	case errors.Is(err, host.ErrNotNetns):
		return fault.Usage.Errorf("node %s: %s is not a network namespace", s.Spec, s.Path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("node %s: %w", s.Spec, err)
	}
	return fmt.Errorf("node %s: %w", s.Spec, err)
}

// Named returns the names of the namespaces that "ip netns" knows.
func Named() []string {
	entries, err := os.ReadDir(netnsDir)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// listNamed says which named namespaces there are.
func listNamed() string {
	const most = 20
	names := Named()
	if len(names) == 0 {
		return "there is none (ip netns list)"
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return "there is: " + strings.Join(names, ", ")
}

// ParseSpecs is ParseSpec for each argument, and refuses (fault.Usage) a namespace
// or a name given twice.
func ParseSpecs(args []string) ([]NodeSpec, error) {
	specs := make([]NodeSpec, 0, len(args))
	for _, arg := range args {
		s, err := ParseSpec(arg)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	return specs, checkDuplicates(specs)
}

func checkDuplicates(specs []NodeSpec) error {
	byInum := make(map[uint32]*NodeSpec, len(specs))
	byName := make(map[string]*NodeSpec, len(specs))
	for i := range specs {
		s := &specs[i]
		if other := byInum[s.Inum]; other != nil {
			return fault.Usage.Errorf("%s (%s) and %s (%s) are the same network namespace: name it once", other.Name, other.Spec, s.Name, s.Spec)
		}
		if other := byName[s.Name]; other != nil {
			return fault.Usage.Errorf("%s and %s would both be node %q: give one another name with name=%s", other.Spec, s.Spec, s.Name, s.Spec)
		}
		byInum[s.Inum], byName[s.Name] = s, s
	}
	return nil
}
