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
)

// NodeSpec names one network namespace.
type NodeSpec struct {
	Name string // of the node
	Spec string // as the user named it, without the name: netns:NAME, netns:/path, pid:N
	Path string // where the namespace can be opened
	Inum uint32 // inode number of the namespace: what it is, whatever its path
}

// netnsDir is where `ip netns` keeps its namespaces.
const netnsDir = "/run/netns"

var nodeNameRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,62}$`)

// ParseSpec reads how a user names a node: "netns:NAME", "netns:/path" or
// "pid:N", with "name=" in front to give the node another name than NAME, the
// last part of the path or "pid-N". The namespace must exist; the host's own is
// refused. What it refuses is ErrUsage.
func ParseSpec(arg string) (NodeSpec, error) {
	s := NodeSpec{Spec: arg}
	// The name ends at the first '=' if that comes before the scheme's ':'.
	if eq := strings.IndexByte(arg, '='); eq >= 0 && eq < strings.IndexByte(arg, ':') {
		s.Name, s.Spec = arg[:eq], arg[eq+1:]
		if s.Name == "" {
			return NodeSpec{}, usagef("node %q: the name before '=' is empty", arg)
		}
	}
	fallback, err := s.locate()
	if err != nil {
		return NodeSpec{}, err
	}
	if s.Name == "" {
		s.Name = fallback
	}
	if !nodeNameRE.MatchString(s.Name) {
		return NodeSpec{}, usagef("node name %q: use letters, digits, '_', '.', ':', '@' or '-' (give one with name=%s)", s.Name, s.Spec)
	}
	if s.Inum, err = identify(s.Path); err != nil {
		return NodeSpec{}, s.explain(err)
	}
	if s.Inum == hostInum {
		return NodeSpec{}, usagef("node %s is the host's own network namespace, which radar does not attach: name the namespaces of the virtual network", s.Spec)
	}
	return s, nil
}

// locate sets Path from Spec and returns the node's default name.
func (s *NodeSpec) locate() (name string, err error) {
	scheme, rest, ok := strings.Cut(s.Spec, ":")
	if !ok || rest == "" {
		return "", usagef("node %q: write netns:NAME, netns:/path or pid:N (did you mean netns:%s?)", s.Spec, s.Spec)
	}
	switch scheme {
	case "netns":
		if strings.HasPrefix(rest, "/") {
			s.Path = filepath.Clean(rest)
			return filepath.Base(s.Path), nil
		}
		if strings.Contains(rest, "/") || rest == "." || rest == ".." {
			return "", usagef("node %q: a namespace's name has no '/'; a path starts with one", s.Spec)
		}
		s.Path = filepath.Join(netnsDir, rest)
		return rest, nil
	case "pid":
		pid, err := strconv.ParseUint(rest, 10, 31)
		if err != nil || pid == 0 {
			return "", usagef("node %q: %q is no process id", s.Spec, rest)
		}
		s.Path = fmt.Sprintf("/proc/%d/ns/net", pid)
		return fmt.Sprintf("pid-%d", pid), nil
	}
	return "", usagef("node %q: unknown kind %q, write netns:NAME, netns:/path or pid:N", s.Spec, scheme)
}

// explain turns a failure to open the namespace into what the user should do.
func (s *NodeSpec) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(s.Spec, "pid:"):
		return usagef("node %s: no such process", s.Spec)
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(s.Path) == netnsDir:
		return usagef("node %s: no such namespace; %s", s.Spec, listNamed())
	case errors.Is(err, fs.ErrNotExist):
		return usagef("node %s: no such file", s.Spec)
	case errors.Is(err, errNotNetns):
		return usagef("node %s: %s is not a network namespace", s.Spec, s.Path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("node %s: %w (run as root)", s.Spec, err)
	}
	return fmt.Errorf("node %s: %w", s.Spec, err)
}

// listNamed says which named namespaces there are.
func listNamed() string {
	entries, err := os.ReadDir(netnsDir)
	if err != nil || len(entries) == 0 {
		return "there is none (ip netns list)"
	}
	const most = 20
	var names []string
	for i, e := range entries {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(entries)-most))
			break
		}
		names = append(names, e.Name())
	}
	return "there is: " + strings.Join(names, ", ")
}

// ParseSpecs is ParseSpec for each argument, and refuses (ErrUsage) a namespace
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
			return usagef("%s (%s) and %s (%s) are the same network namespace: name it once", other.Name, other.Spec, s.Name, s.Spec)
		}
		if other := byName[s.Name]; other != nil {
			return usagef("%s and %s would both be node %q: give one another name with name=%s", other.Spec, s.Spec, s.Name, s.Spec)
		}
		byInum[s.Inum], byName[s.Name] = s, s
	}
	return nil
}
