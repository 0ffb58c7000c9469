// SPDX-License-Identifier: Apache-2.0

// Package dockertest gives tests a Docker engine and containers, and takes them
// away again. It uses the engine that runs, or else starts one of its own, with
// everything that belongs to it in a temporary folder. It speaks to the engine by
// the docker command, not by the library that radar uses.
//
// Everything has a name that no other test or user has: others may use the same
// engine at the same time.
package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// commandTime bounds every call of the docker command.
const commandTime = 3 * time.Minute

// shared is what the tests of one program have in common.
var shared struct {
	sync.Mutex
	inMain bool
	host   string   // DOCKER_HOST, "" for the default
	daemon *daemon  // nil: the engine is not ours
	lock   *os.File // held while daemon is there
	image  string   // "" until the engine is ready
	lack   error    // why there is no engine
}

// lockFile keeps the engines of test programs apart: each has rules and a bridge in the
// machine's own namespace, and takes them away when it ends. Packages are tested side by
// side: the second to need an engine of its own waits for the first to end.
const lockFile = "/run/lock/radar-dockertest"

// Main is for TestMain of every package whose tests call New: it runs the tests,
// then removes what they shared. It returns the exit code.
func Main(m *testing.M) int {
	shared.inMain = true
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if err := release(); err != nil {
		fmt.Fprintf(os.Stderr, "remove the tests' Docker engine: %v\n", err)
		code = max(code, 1)
	}
	return code
}

// lockedFile opens a file, when nobody else has it locked any more. Closing it, or the end of the
// process, unlocks it.
func lockedFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := nstest.Again(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) }); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// release removes the image, and the engine if it is ours.
func release() error {
	var errs []error
	if shared.image != "" {
		if out, err := docker("image", "rm", "-f", shared.image); err != nil {
			errs = append(errs, fmt.Errorf("remove image: %w: %s", err, out))
		}
	}
	if shared.daemon != nil {
		errs = append(errs, shared.daemon.stop(), shared.lock.Close())
	}
	return errors.Join(errs...)
}

// Engine is a Docker engine in the hands of one test.
type Engine struct {
	// Image has busybox and nothing else, at /bin with all its names.
	Image  string
	t      testing.TB
	prefix string
}

// New returns an engine that works. It needs root, and an engine that answers or that can
// be started. DOCKER_HOST is set for the test if need be.
func New(t testing.TB) *Engine {
	t.Helper()
	need.AsRoot(t)
	shared.Lock()
	defer shared.Unlock()
	if !shared.inMain {
		t.Fatal("call dockertest.Main from TestMain: else nobody removes the engine")
	}
	if shared.image == "" {
		if shared.lack == nil {
			shared.lack = findEngine()
		}
		lackEngine(t, shared.lack)
		if err := importImage(); err != nil {
			t.Fatal(err)
		}
	}
	if shared.host != "" {
		t.Setenv("DOCKER_HOST", shared.host)
	}
	return &Engine{Image: shared.image, t: t, prefix: nstest.Unique()}
}

// lackEngine ends the test if err says why there is no engine.
func lackEngine(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		need.Lack(t, need.Docker, fmt.Sprintf("apt-get install docker.io busybox-static: %v", err))
	}
}

// findEngine finds the engine, or starts it.
func findEngine() error {
	if _, err := exec.LookPath("docker"); err != nil {
		return err
	}
	if _, err := staticBusybox(); err != nil {
		return err
	}
	if shared.daemon != nil {
		return nil
	}
	if _, err := docker("version", "--format", "{{.Server.Version}}"); err == nil {
		return nil
	}
	lock, err := lockedFile(lockFile)
	if err != nil {
		return fmt.Errorf("wait for other tests' engine: %w", err)
	}
	d, err := startDaemon(nil)
	if err != nil {
		lock.Close()
		return err
	}
	shared.daemon, shared.host, shared.lock = d, d.host(), lock
	return nil
}

// importImage makes the image.
func importImage() error {
	image := nstest.Unique() + ":test"
	tar, err := busyboxTar()
	if err != nil {
		return err
	}
	if out, err := dockerWith(bytes.NewReader(tar), "import", "-", image); err != nil {
		return fmt.Errorf("import image: %w: %s", err, out)
	}
	shared.image = image
	return nil
}

// docker runs the command and returns all that it printed.
func docker(args ...string) (string, error) { return dockerWith(nil, args...) }

func dockerWith(stdin *bytes.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if shared.host != "" {
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+shared.host)
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Try runs the docker command and returns all that it printed.
func (e *Engine) Try(args ...string) (string, error) { return docker(args...) }

// Docker is Try for commands that must not fail.
func (e *Engine) Docker(args ...string) string {
	e.t.Helper()
	out, err := docker(args...)
	if err != nil {
		e.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Name is the name that a container or network called name has in the engine.
func (e *Engine) Name(name string) string { return e.prefix + name }

// Label is a label that only this test's containers have, for --label and for
// filters.
func (e *Engine) Label() string { return "rdrtest=" + e.prefix }

// Network makes a network and returns its full name. It goes with the test.
func (e *Engine) Network(name string, flags ...string) string {
	e.t.Helper()
	full := e.Name(name)
	e.Docker(append(append([]string{"network", "create"}, flags...), full)...)
	e.t.Cleanup(func() { e.removeNetwork(full) })
	return full
}

// removeNetwork removes a network whose containers are gone. Engines now and then
// count an endpoint too many when many containers come and go at once, and keep the
// network until they are restarted (moby issues 42119, 43286). That is no fault of
// the test, and an engine of our own takes its networks along when it ends.
func (e *Engine) removeNetwork(name string) {
	out, err := docker("network", "rm", name)
	if err == nil || gone(out) {
		return
	}
	inIt, psErr := docker("ps", "--all", "--quiet", "--filter", "network="+name)
	switch {
	case !strings.Contains(out, "has active endpoints") || psErr != nil || inIt != "":
		e.t.Errorf("docker network rm %s: %v\n%s\ncontainers in it: %v %s", name, err, out, psErr, inIt)
	case shared.daemon == nil:
		e.t.Errorf("docker network rm %s: %v\n%s\nno container is in it, the engine has miscounted (moby issue 43286): restart it and remove the network", name, err, out)
	default:
		e.t.Logf("Docker keeps network %s, in which no container is (moby issue 43286): it goes with the engine", name)
	}
}

// Container is one container.
type Container struct {
	Name string // in the engine
	ID   string
	e    *Engine
}

// Run starts a container that does nothing, with further flags of docker run. It
// is removed when the test ends.
func (e *Engine) Run(name string, flags ...string) *Container {
	e.t.Helper()
	return e.container("run", name, flags)
}

// Create is Run without the start.
func (e *Engine) Create(name string, flags ...string) *Container {
	e.t.Helper()
	return e.container("create", name, flags)
}

func (e *Engine) container(verb, name string, flags []string) *Container {
	e.t.Helper()
	c := &Container{Name: e.Name(name), e: e}
	args := []string{verb, "--name", c.Name, "--label", e.Label(), "--cap-add", "NET_ADMIN",
		"--stop-signal", "KILL"} // sleep as process 1 hears no other
	if verb == "run" {
		args = append(args, "--detach")
	}
	args = append(append(args, flags...), e.Image, "sleep", "3600")
	// Before it is made: "run" can fail after that.
	e.t.Cleanup(func() { e.remove("rm", "--force", "--volumes", c.Name) })
	lines := strings.Split(e.Docker(args...), "\n") // warnings come first
	c.ID = lines[len(lines)-1]
	return c
}

// remove removes what may be gone already.
func (e *Engine) remove(args ...string) {
	out, err := docker(args...)
	if err != nil && !gone(out) {
		e.t.Errorf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// gone says whether Docker found nothing to remove.
func gone(out string) bool {
	return strings.Contains(strings.ToLower(out), "no such") || strings.Contains(out, "not found")
}

// PID is the container's first process.
func (c *Container) PID() int {
	c.e.t.Helper()
	pid, err := strconv.Atoi(c.e.Docker("inspect", "--format", "{{.State.Pid}}", c.ID))
	if err != nil || pid == 0 {
		c.e.t.Fatalf("container %s has no process: %v", c.Name, err)
	}
	return pid
}

// Address is the container's IPv4 address on its only network.
func (c *Container) Address() string {
	c.e.t.Helper()
	return c.e.Docker("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", c.ID)
}

// Exec runs a command in the container, which must succeed.
func (c *Container) Exec(command ...string) string {
	c.e.t.Helper()
	return c.e.Docker(append([]string{"exec", c.ID}, command...)...)
}

// Stop, Start and Restart do as docker's commands do.
func (c *Container) Stop()    { c.e.t.Helper(); c.e.Docker("stop", c.ID) }
func (c *Container) Start()   { c.e.t.Helper(); c.e.Docker("start", c.ID) }
func (c *Container) Restart() { c.e.t.Helper(); c.e.Docker("restart", c.ID) }
