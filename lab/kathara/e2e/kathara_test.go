// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

// How long things of Kathará, and commands, may take that do not hang.
const (
	setupTime   = 20 * time.Minute // with nothing cached
	lstartTime  = 10 * time.Minute
	startupTime = 5 * time.Minute
	commandTime = 10 * time.Minute
)

// network is a lab that runs, in namespaces or containers.
type network struct {
	machines map[string]*place // by the lab's names
	attach   []string          // arguments of "radar attach" that name its machines
}

// exportLab writes a scenario of radar's as a folder, under a name that no other
// lab has.
func exportLab(t *testing.T, scenario string) (dir, name string) {
	t.Helper()
	name = nstest.Unique()
	dir = filepath.Join(t.TempDir(), name)
	run(t, commandTime, radarbin.Path(t), "lab", "export", scenario, dir)
	conf := filepath.Join(dir, "lab.conf")
	b, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	b = regexp.MustCompile(`(?m)^LAB_NAME=.*$`).ReplaceAll(b, fmt.Appendf(nil, "LAB_NAME=%q", name))
	if err := os.WriteFile(conf, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, name
}

// machinesOf are the names of a lab's machines, by its folder.
func machinesOf(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "lab.conf"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^(\w+)\[0\]=`).FindAllSubmatch(b, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// upPlain runs a lab in plain namespaces.
func upPlain(t *testing.T, dir, name string) *network {
	t.Helper()
	n := &network{machines: map[string]*place{}, attach: []string{"--lab", dir}}
	bin := radarbin.Path(t)
	t.Cleanup(func() { run(t, commandTime, bin, "lab", "down", name) })
	run(t, commandTime, bin, "lab", "up", dir)
	for _, m := range machinesOf(t, dir) {
		n.add(t, m, "/run/netns/"+name+"-"+m)
	}
	return n
}

// upKathara runs a lab as Kathará's containers, and waits for its startup scripts:
// lstart does not.
func upKathara(t *testing.T, e *dockertest.Engine, dir, name string) *network {
	t.Helper()
	n := &network{machines: map[string]*place{}, attach: []string{"--lab", dir}}
	t.Cleanup(func() { run(t, lstartTime, katharaTool, "lclean", "-d", dir) })
	run(t, lstartTime, katharaTool, "lstart", "-d", dir)
	hash := katharaHash(t, name)
	for _, m := range machinesOf(t, dir) {
		id := e.Docker("ps", "--quiet", "--filter", "label=app=kathara",
			"--filter", "label=lab_hash="+hash, "--filter", "label=name="+m)
		if id == "" {
			t.Fatalf("machine %s of Kathará's lab does not run", m)
		}
		pid := e.Docker("inspect", "--format", "{{.State.Pid}}", id)
		n.add(t, m, "/proc/"+pid+"/ns/net")
		awaitStartup(t, m, "/proc/"+pid+"/root")
	}
	return n
}

// awaitStartup waits until the machine's startup script has run to its end: then
// Kathará leaves a file.
func awaitStartup(t *testing.T, machine, root string) {
	t.Helper()
	for end := time.Now().Add(startupTime); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(root, "tmp", "EOS")); err == nil {
			return
		}
	}
	log, _ := os.ReadFile(filepath.Join(root, "var", "log", "startup.log"))
	t.Fatalf("the startup script of %s does not end:\n%s", machine, log)
}

// katharaHash is how Kathará itself marks the containers of a lab with that name.
func katharaHash(t *testing.T, name string) string {
	t.Helper()
	python := filepath.Join("..", "..", "..", ".cache", "kathara", "venv", "bin", "python")
	code := "import sys; from Kathara.utils import generate_urlsafe_hash; print(generate_urlsafe_hash(sys.argv[1]))"
	return run(t, commandTime, python, "-c", code, name)
}

// setUp prepares the engine for Kathará: image, plugin, settings, and a way through
// the host's firewall, which the engine closes for bridged packets as well.
func setUp(t *testing.T) *dockertest.Engine {
	t.Helper()
	e := engine(t)
	t.Setenv("RADAR_BIN", radarbin.Path(t))
	run(t, setupTime, filepath.Join("..", "setup.sh"), "up")
	rule := []string{"DOCKER-USER", "-i", "kt-+", "-o", "kt-+", "-m", "comment", "--comment", nstest.Unique(), "-j", "ACCEPT"}
	run(t, commandTime, "iptables", append([]string{"-w", "-I"}, rule...)...)
	t.Cleanup(func() { run(t, commandTime, "iptables", append([]string{"-w", "-D"}, rule...)...) })
	return e
}

const katharaTool = "../kathara.sh"

// add makes a machine a place.
func (n *network) add(t *testing.T, machine, path string) {
	t.Helper()
	n.machines[machine] = newPlace(t, machine, path, netip.Addr{})
}

// run runs a command, which must succeed, for a limited time, and returns what it
// printed, less white space at the ends.
func run(t *testing.T, limit time.Duration, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
