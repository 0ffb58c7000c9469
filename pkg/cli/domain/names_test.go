// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// inode is what the kernel calls the network namespace of a container.
func inode(t *testing.T, c *dockertest.Container) string {
	t.Helper()
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", c.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// newDomain is a state directory and a domain of its own, without a lab.
func newDomain(t *testing.T) *clitest.World {
	t.Helper()
	w := &clitest.World{T: t, Domain: nstest.Unique()}
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	t.Setenv("RADAR_DOMAIN", w.Domain)
	t.Setenv("RADAR_SLOTS", "64K")
	t.Setenv(clitest.ExecEnv, "1")
	nstest.Cleanup(t, func() { clitest.Radar(t, "detach", "--no-drain") })
	return w
}

// ports are the attached ports as "NODE PORT NAMESPACE", without those of the host
// at the containers' bridge.
func ports(w *clitest.World) map[string]bool {
	w.Helper()
	d, err := domain.Load(w.Domain)
	if err != nil {
		w.Fatal(err)
	}
	found := make(map[string]bool)
	for _, p := range d.Ports {
		if n := d.NodeByID(p.Node); !p.Removed && !n.Removed && !n.Auto {
			found[fmt.Sprintf("%s %s net:[%d]", n.Name, p.Name, n.Inum)] = true
		}
	}
	return found
}

// becomes waits until exactly the eth0 of these containers are attached, each under
// its name.
func becomes(w *clitest.World, what string, containers map[string]*dockertest.Container) {
	w.Helper()
	want := make(map[string]bool)
	for name, c := range containers {
		want[fmt.Sprintf("%s eth0 %s", name, inode(w.T, c))] = true
	}
	var have map[string]bool
	for deadline := time.Now().Add(clitest.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if have = ports(w); fmt.Sprint(have) == fmt.Sprint(want) {
			return
		}
	}
	log, _ := os.ReadFile(domain.File(w.Domain, "agent.log"))
	w.Fatalf("%s: attached is %v, want %v\n%s", what, have, want, log)
}

// echoes pings from one container to another until all packets of one ping have arrived at
// the node called last: the domain names a container before its programs are attached.
func echoes(w *clitest.World, from *dockertest.Container, to, last string) {
	w.Helper()
	arrived := func() (n int) {
		for _, r := range w.Packets("--dst", to, "--proto", "icmp", "--state", "delivered") {
			// The bridge may not know yet where to: then the others have seen it, too.
			if slices.ContainsFunc(r.Hops, func(h record.Hop) bool { return h.Node == last && h.Role == record.Sink }) {
				n++
			}
		}
		return n
	}
	deadline := time.Now().Add(clitest.Patience)
	for {
		before := arrived()
		from.Exec("ping", "-c", "2", "-i", "0.1", "-W", "60", to)
		for again := time.Now().Add(5 * time.Second); time.Now().Before(again); time.Sleep(50 * time.Millisecond) {
			if arrived() == before+2 {
				return
			}
		}
		if time.Now().After(deadline) {
			w.Fatalf("%d packets to %s have arrived at %s, want 2", arrived()-before, to, last)
		}
	}
}

// Containers are attached by name and label, and those that start, end or are
// restarted are followed, until the user says otherwise.
func TestFollowContainers(t *testing.T) {
	w := newDomain(t)
	d := dockertest.New(t)
	network := d.Network("net")
	run := func(name string, flags ...string) *dockertest.Container {
		return d.Run(name, append([]string{"--network", network}, flags...)...)
	}
	web, db := run("web"), run("db")
	label := "docker:label=" + d.Label()
	off := d.Create("off", "--network", network)

	out := w.Radar(kit.ExitOK, "attach", "-d", "--watch-containers", "w=docker:"+web.Name, "docker:"+off.Name, label)
	if !strings.Contains(out, off.Name+" does not run") {
		t.Errorf("attach said %q; want a note that %s is waited for", out, off.Name)
	}
	becomes(w, "at first", map[string]*dockertest.Container{"w": web, db.Name: db})
	echoes(w, web, db.Address(), db.Name)

	late := run("late")
	becomes(w, "one that starts", map[string]*dockertest.Container{"w": web, db.Name: db, late.Name: late})
	echoes(w, web, late.Address(), late.Name)

	off.Start()
	web.Restart()
	four := map[string]*dockertest.Container{"w": web, db.Name: db, late.Name: late, off.Name: off}
	becomes(w, "one that was waited for, one that is restarted", four)
	if out := w.Radar(kit.ExitOK, "status"); !strings.Contains(out, "followed: w=docker:"+web.Name+" docker:"+off.Name+" "+label) {
		t.Errorf("status said\n%s", out)
	}
	echoes(w, late, web.Address(), "w")

	db.Stop()
	delete(four, db.Name)
	becomes(w, "one that ends", four)

	// What the user detaches stays out, even when another one starts.
	w.Radar(kit.ExitOK, "detach", late.Name)
	delete(four, late.Name)
	db.Start()
	four[db.Name] = db
	becomes(w, "one that was detached", four)

	// A later agent follows as the first one did.
	w.Kill()
	off.Stop()
	w.Radar(kit.ExitOK, "attach", "-d")
	off.Start()
	becomes(w, "after the agent's end", four)

	if out := w.Radar(kit.ExitOK, "attach", "--watch-containers=false"); !strings.Contains(out, "containers: not followed any more") {
		t.Errorf("attach said\n%s", out)
	}
	more := run("more")
	time.Sleep(time.Second)
	becomes(w, "unwatched, with "+more.Name, four)
}

// A domain waits for containers: before the first of them runs, and after its last
// node was detached.
func TestWaitForContainers(t *testing.T) {
	w := newDomain(t)
	d := dockertest.New(t)
	network, label := d.Network("net"), "docker:label="+d.Label()
	first := d.Create("first", "--network", network)
	w.Radar(kit.ExitUsage, "attach", "-d", "docker:"+first.Name)
	out := w.Radar(kit.ExitOK, "attach", "-d", "--watch-containers", "docker:"+first.Name, label)
	for _, want := range []string{": 0 nodes, 0 ports", first.Name + " does not run", "it joins when it starts", "followed: docker:" + first.Name + " " + label} {
		if !strings.Contains(out, want) {
			t.Errorf("attach: no %q in\n%s", want, out)
		}
	}
	if out := w.Radar(kit.ExitOK, "status"); strings.Contains(out, "no node is left") || !strings.Contains(out, "the agent renews it") {
		t.Errorf("status said\n%s", out)
	}
	first.Start()
	becomes(w, "the first", map[string]*dockertest.Container{first.Name: first})

	if out := w.Radar(kit.ExitOK, "attach", label, "--dry-run"); !strings.Contains(out, ": 1 node, 1 port, 1 port of host found, ") {
		t.Errorf("dry run said\n%s", out)
	}
	if out := w.Radar(kit.ExitUsage, "attach", label, "--watch", "udp"); !strings.Contains(out, `is attached without --watch, not with --watch "udp"`) {
		t.Errorf("attach with another expression said\n%s", out)
	}
	for command, want := range map[string]bool{"detach": false, "trace --node": true} {
		args := append(append([]string{"__complete"}, strings.Fields(command)...), "")
		out, _, _ := clitest.Radar(t, args...)
		if !strings.Contains(out, first.Name+"\n") || strings.Contains(out, "host\n") != want {
			t.Errorf("completing the nodes of %q: %q", command, out)
		}
	}
	if out := w.Radar(kit.ExitOK, "detach", first.Name); !strings.Contains(out, "1 node with ") || !strings.Contains(out, "waits for containers that match "+label+" (") {
		t.Errorf("detach of the last node said\n%s", out)
	}
	becomes(w, "detached", nil)
	a, b := d.Run("a", "--network", network), d.Run("b", "--network", network)
	becomes(w, "later ones", map[string]*dockertest.Container{a.Name: a, b.Name: b})
	echoes(w, a, b.Address(), b.Name)

	// Unfollowed, a domain ends with its last node, whose bridge is no node of the user's.
	w.Radar(kit.ExitOK, "attach", "--watch-containers=false")
	out = w.Radar(kit.ExitOK, "detach", a.Name, b.Name)
	if !strings.Contains(out, "detached: 2 nodes") || !strings.Contains(out, "measured for") {
		t.Errorf("detach of all nodes printed no summary:\n%s", out)
	}
}

// An interface that a container gets after its start is attached too: Kathará
// connects its machines so.
func TestContainerGetsInterfaceLater(t *testing.T) {
	w := newDomain(t)
	d := dockertest.New(t)
	network := d.Network("net") // not docker0, which others use as well
	a := d.Run("a", "--network", network)
	w.Radar(kit.ExitOK, "attach", "-d", "--watch-containers", "docker:label="+d.Label())
	first := d.Network("first")
	b := d.Run("b", "--network", first)
	d.Docker("network", "disconnect", first, b.ID)
	d.Docker("network", "connect", network, b.ID)
	// The new one may be called as the old one was.
	index := b.Exec("sh", "-c", "cat /sys/class/net/eth*/ifindex")
	attached := func() bool {
		d, err := domain.Load(w.Domain)
		return err == nil && slices.ContainsFunc(d.Ports, func(p domain.Port) bool {
			return !p.Removed && d.NodeByID(p.Node).Name == b.Name && fmt.Sprint(p.Ifindex) == index
		})
	}
	for deadline := time.Now().Add(clitest.Patience); !attached(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("attached: %v, want interface %s of %s", ports(w), index, b.Name)
		}
	}
	echoes(w, a, b.Address(), b.Name)
}

// What is found in bulk and belongs to another domain is left to it; what is named is
// refused.
func TestContainersOfAnotherDomain(t *testing.T) {
	w := newDomain(t)
	d := dockertest.New(t)
	theirs, mine := d.Run("theirs", "--network", d.Network("one")), d.Run("mine", "--network", d.Network("two"))
	label, other := "docker:label="+d.Label(), "o"+w.Domain
	nstest.Cleanup(t, func() { clitest.Radar(t, "detach", "--no-drain", "--domain", other) })
	w.Radar(kit.ExitOK, "attach", "-d", "--domain", other, "docker:"+theirs.Name)
	out := w.Radar(kit.ExitOK, "attach", "-d", label)
	if want := fmt.Sprintf("%s (docker:%s) is left out: it belongs to domain %q", theirs.Name, theirs.Name, other); !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	becomes(w, "in bulk", map[string]*dockertest.Container{mine.Name: mine})
	if out := w.Radar(kit.ExitUsage, "attach", label, "docker:"+theirs.Name); !strings.Contains(out, "belongs to domain") {
		t.Errorf("attach of a named container said\n%s", out)
	}
}

// Without --watch-containers nobody joins.
func TestContainersNotFollowed(t *testing.T) {
	w := newDomain(t)
	d := dockertest.New(t)
	web := d.Run("web", "--network", d.Network("net"))
	w.Radar(kit.ExitOK, "attach", "-d", "docker:"+web.Name)
	becomes(w, "at first", map[string]*dockertest.Container{web.Name: web})
	web.Restart()
	time.Sleep(time.Second)
	becomes(w, "restarted", nil)
	// Asked for, it comes back under its name: nobody has to name it again.
	w.Radar(kit.ExitOK, "attach", "--watch-containers", "docker:"+web.Name)
	becomes(w, "asked for", map[string]*dockertest.Container{web.Name: web})
}

// A lab is attached by folder or name, and its machines have their own names.
func TestAttachLab(t *testing.T) {
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "pair")
	w.Radar(kit.ExitOK, "lab", "export", "chain", dir, "--set", "N=1")
	name := nstest.Unique()
	w.Radar(kit.ExitOK, "lab", "up", dir, "--name", name)
	defer w.Radar(kit.ExitOK, "lab", "down", name)

	t.Chdir(dir)
	if out := w.Radar(kit.ExitUsage, "attach"); !strings.Contains(out, "lab "+name+" runs here") || !strings.Contains(out, "--lab .") {
		t.Errorf("attach in the folder of a running lab said %q", out)
	}
	for _, lab := range []string{".", dir, name} {
		out := w.Radar(kit.ExitOK, "attach", "--dry-run", "--lab", lab)
		for _, want := range []string{"3 nodes, 4 ports", "h1 ", "r1 ", "h2 ", "h1/eth0"} {
			if !strings.Contains(out, want) {
				t.Errorf("--lab %s: no %q in\n%s", lab, want, out)
			}
		}
	}
	t.Setenv("RADAR_LAB", ".")
	w.Radar(kit.ExitOK, "attach", "-d")
	d, err := domain.Load(w.Domain)
	if err != nil || fmt.Sprint(d.Selectors) != "[lab:"+name+"]" {
		t.Errorf("selectors of the domain: %+v, %v", d, err)
	}
	t.Setenv("RADAR_LAB", "")
	if out := w.Radar(kit.ExitUsage, "attach", "--lab", "no"+name); !strings.Contains(out, name) {
		t.Errorf("attaching a lab that does not run said %q", out)
	}
	if out := w.Radar(kit.ExitUsage, "attach", "--lab", name, "--watch-containers=true", "--domain", "x"+w.Domain); !strings.Contains(out, "--docker") {
		t.Errorf("following containers of a lab without any said %q", out)
	}
}

// What can be attached is completed.
func TestCompleteSelectors(t *testing.T) {
	newDomain(t)
	n := nstest.New(t, "a")
	d := dockertest.New(t)
	web := d.Run("web")
	machine := d.Run("m", "--label", "app=kathara", "--label", "name=m"+n.Name("a"))
	for word, want := range map[string]string{
		"":                        "docker:",
		"docker:" + d.Name(""):    "docker:" + web.Name,
		"x=docker:" + web.Name:    "x=docker:" + web.Name,
		"netns:" + n.Name("a"):    "netns:" + n.Name("a"),
		"netns:h":                 "netns:host",
		"kathara:m" + n.Name("a"): "kathara:m" + n.Name("a"),
		"docker:" + machine.Name:  "docker:" + machine.Name,
	} {
		nstest.WaitFor(t, fmt.Sprintf("%q completed to %q", word, want), func() bool { // an engine that is not quick enough is left out
			out, _, _ := clitest.Radar(t, "__complete", "attach", word)
			return strings.Contains(out, want+"\n")
		})
	}
	t.Setenv("DOCKER_HOST", "unix:///nonexistent")
	start := time.Now()
	if out, _, _ := clitest.Radar(t, "__complete", "attach", "docker:"); strings.Contains(out, "docker:") || need.IsNightly(t) && time.Since(start) > 5*time.Second {
		t.Errorf("completing without an engine took %v: %q", time.Since(start), out)
	}
}
