// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }

// inum is the number of a process's network namespace.
func inum(t *testing.T, pid int) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st); err != nil {
		t.Fatal(err)
	}
	return uint32(st.Ino)
}

func resolve(t *testing.T, selectors ...string) *Result {
	t.Helper()
	r, err := Resolve(t.Context(), Request{Selectors: selectors})
	if err != nil {
		t.Fatalf("Resolve(%q): %v", selectors, err)
	}
	return r
}

// want demands these nodes, as "name spec", of these processes.
func (r *Result) want(t *testing.T, nodes map[string]int) {
	t.Helper()
	if len(r.Nodes) != len(nodes) {
		t.Errorf("%d nodes, want %d: %+v", len(r.Nodes), len(nodes), r.Nodes)
	}
	for _, n := range r.Nodes {
		pid, ok := nodes[n.Name+" "+n.Spec]
		if !ok {
			t.Errorf("node %s %s is not wanted", n.Name, n.Spec)
			continue
		}
		if n.Inum != inum(t, pid) {
			t.Errorf("node %s is namespace %d, its process is in %d", n.Name, n.Inum, inum(t, pid))
		}
		ns, err := n.Open()
		if err != nil {
			t.Errorf("open node %s: %v", n.Name, err)
			continue
		}
		ns.Close()
	}
}

// refused demands a usage error with all of these texts.
func refused(t *testing.T, selector string, texts ...string) {
	t.Helper()
	r, err := Resolve(t.Context(), Request{Selectors: []string{selector}})
	if !errors.Is(err, fault.Usage) {
		t.Errorf("%s: found %+v, error %v; want a usage error", selector, r, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; want it to say %q", selector, err, text)
		}
	}
}

func TestDockerByName(t *testing.T) {
	d := dockertest.New(t)
	web, db := d.Run("web"), d.Run("db")
	side, host, off := d.Run("side", "--network", "container:"+web.Name), d.Run("host", "--network", "host"), d.Create("off")

	resolve(t, "docker:"+web.Name, "x=docker:"+db.ID[:16]).want(t, map[string]int{
		web.Name + " docker:" + web.Name: web.PID(),
		"x docker:" + db.ID[:16]:         db.PID(),
	})
	refused(t, "docker:"+host.Name, "host's network", "netns:host")
	refused(t, "docker:"+side.Name, web.Name, "docker:"+web.Name+" instead")
	refused(t, "docker:"+off.Name, "does not run", "docker start "+off.Name)
	refused(t, "docker:"+d.Name("nobody"), "no such container; running: ") // which: there may be too many
	refused(t, "x=docker:label=a", "many")
	refused(t, "docker:label=", "docker:label=KEY")
	refused(t, "docker:", "docker:NAME")
	nstest.WaitFor(t, "a hint at docker:"+web.Name, func() bool { // an engine that is not quick enough is not waited for
		_, err := Resolve(t.Context(), Request{Selectors: []string{web.Name}})
		return errors.Is(err, fault.Usage) && strings.Contains(err.Error(), "did you mean docker:"+web.Name+"?")
	})
	refused(t, d.Name("nobody"), "docker:NAME")

	// One namespace under two names that the user gave is refused where two
	// namespaces of "ip netns" are.
	twice := resolve(t, "docker:"+web.Name, "y=docker:"+web.ID)
	if _, err := topo.Discover(twice.Nodes, nil); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "same network namespace") {
		t.Errorf("a container named twice: %v", err)
	}

	// For who waits, what does not run yet is a note.
	r, err := Resolve(t.Context(), Request{Selectors: []string{"docker:" + off.Name, "docker:" + web.Name}, Wait: true})
	if err != nil || len(r.Nodes) != 1 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], off.Name) {
		t.Errorf("waiting for %s: %+v, %v", off.Name, r, err)
	}
}

func TestDockerInBulk(t *testing.T) {
	d := dockertest.New(t)
	web, db := d.Run("web", "--label", "tier=front"), d.Run("db", "--label", "tier=back")
	d.Run("side", "--network", "container:"+web.Name)
	d.Run("host", "--network", "host")
	d.Create("off")
	label := "docker:label=" + d.Label()

	r := resolve(t, label)
	both := map[string]int{web.Name + " docker:" + web.Name: web.PID(), db.Name + " docker:" + db.Name: db.PID()}
	r.want(t, both)
	if len(r.Notes) != 2 || !strings.Contains(r.Notes[0], d.Name("host")) || !strings.Contains(r.Notes[1], web.Name) {
		t.Errorf("notes: %q", r.Notes)
	}
	// All containers: ours are among them.
	for _, n := range resolve(t, AllContainers).Nodes {
		if n.Name == web.Name && n.Inum != inum(t, web.PID()) {
			t.Errorf("among all: %+v", n)
		}
		delete(both, n.Name+" "+n.Spec)
	}
	if len(both) != 0 {
		t.Errorf("not among all: %v", both)
	}
	// The user's name wins, wherever it stands; what is found twice is there once.
	resolve(t, label, "w=docker:"+web.Name, label).want(t, map[string]int{
		"w docker:" + web.Name:         web.PID(),
		db.Name + " docker:" + db.Name: db.PID(),
	})
	// What is in the domain already does not come again, under whatever name.
	known := resolve(t, "w=docker:"+web.Name).Nodes
	r, err := Resolve(t.Context(), Request{Selectors: []string{label}, Known: known})
	if err != nil {
		t.Fatal(err)
	}
	r.want(t, map[string]int{db.Name + " docker:" + db.Name: db.PID()})
	// What was there and is gone does not hold its name.
	known = resolve(t, "docker:"+web.Name).Nodes
	web.Restart()
	if r, err = Resolve(t.Context(), Request{Selectors: []string{label}, Known: known}); err != nil {
		t.Fatal(err)
	}
	r.want(t, map[string]int{web.Name + " docker:" + web.Name: web.PID(), db.Name + " docker:" + db.Name: db.PID()})

	refused(t, "docker:label="+d.Label()+"x", "no container with label")
}

// Every namespace that has a name, a container or a process is found, the host's
// is not. Nothing is attached: namespaces of others are among them.
func TestAllNamespaces(t *testing.T) {
	n := nstest.New(t, "a")
	d := dockertest.New(t)
	web := d.Run("web")
	r := resolve(t, AllNamespaces)
	want := map[string]uint32{web.Name + " docker:" + web.Name: inum(t, web.PID())}
	var st unix.Stat_t
	if err := unix.Stat(n.Path("a"), &st); err != nil {
		t.Fatal(err)
	}
	want[n.Name("a")+" netns:"+n.Name("a")] = uint32(st.Ino)
	names := map[string]bool{}
	for _, s := range r.Nodes {
		if s.IsHost() || s.Inum == inum(t, os.Getpid()) {
			t.Errorf("the host's namespace is among them: %+v", s)
		}
		if names[s.Name] {
			t.Errorf("name %s is there twice", s.Name)
		}
		names[s.Name] = true
		key := s.Name + " " + s.Spec
		if number, ok := want[key]; ok && number != s.Inum {
			t.Errorf("%s is %d, want %d", key, s.Inum, number)
		}
		delete(want, key)
	}
	if len(want) != 0 {
		t.Errorf("not found: %v among %+v", want, r.Nodes)
	}
}

func TestOfContainers(t *testing.T) {
	got := OfContainers([]string{"docker:*", "netns:a", "x=docker:web", "lab:chain", "kathara:AB/*", "pid:4", "kathara:r1", "netns:*"})
	want := []string{"x=docker:web", "kathara:r1", "docker:*", "kathara:AB/*", "docker:*"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
