// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/dockertest"
)

func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }

func connect(t *testing.T) *Engine {
	t.Helper()
	e, err := Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// What the engine's API says of a container is what the docker command says.
func TestFind(t *testing.T) {
	d := dockertest.New(t)
	web := d.Run("web", "--label", "tier=front")
	side := d.Run("side", "--network", "container:"+web.Name)
	host := d.Run("host", "--network", "host")
	off := d.Create("off")
	e := connect(t)
	for _, name := range []string{web.Name, web.ID, web.ID[:20]} {
		c, err := e.Find(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if c.ID != web.ID || c.Name != web.Name || c.PID != web.PID() || c.Labels["tier"] != "front" || c.HostNetwork || c.Joined != "" || !c.Runs() {
			t.Errorf("Find(%s) = %+v, want %s with process %d", name, c, web.ID, web.PID())
		}
	}
	if c, err := e.Find(t.Context(), side.Name); err != nil || c.Joined != web.Name {
		t.Errorf("in another's network: %+v, %v", c, err)
	}
	if c, err := e.Find(t.Context(), host.Name); err != nil || !c.HostNetwork {
		t.Errorf("in the host's network: %+v, %v", c, err)
	}
	if c, err := e.Find(t.Context(), off.Name); err != nil || c.Runs() || c.State != "created" {
		t.Errorf("never started: %+v, %v", c, err)
	}
	if _, err := e.Find(t.Context(), d.Name("nobody")); !errors.Is(err, ErrNoContainer) {
		t.Errorf("no such container: %v", err)
	}
	for all, want := range map[bool]int{false: 3, true: 4} {
		if list, err := e.List(t.Context(), all, d.Label()); err != nil || len(list) != want {
			t.Errorf("List(all %v) found %d, %v; want %d", all, len(list), err, want)
		}
	}
}

// A number that means another process here is not the container's.
func TestProcessOfAnother(t *testing.T) {
	d := dockertest.New(t)
	web, db := d.Run("web"), d.Run("db")
	for pid, want := range map[int]bool{web.PID(): true, db.PID(): false, os.Getpid(): false, 1 << 30: false} {
		if got := (&Container{ID: web.ID, PID: pid}).processIsHere(); got != want {
			t.Errorf("process %d is the container's: %v, want %v", pid, got, want)
		}
	}
}

// No start is missed once Starts has said that it is ready.
func TestStarts(t *testing.T) {
	d := dockertest.New(t)
	web := d.Create("web")
	e := connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ready, started := make(chan struct{}), make(chan struct{}, 100)
	ended := make(chan error, 1)
	go func() { ended <- e.Starts(ctx, func() { close(ready) }, func() { started <- struct{}{} }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	web.Start()
	for running := false; !running; {
		select {
		case <-started: // perhaps of others
			c, err := e.Find(ctx, web.Name)
			running = err == nil && c.Runs()
		case err := <-ended:
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatal("the start was not reported")
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Starts ended with %v", err)
	}
}

// Each cause for which Docker cannot be asked has its own message, which says what to do.
func TestNoEngine(t *testing.T) {
	for host, want := range map[string]string{
		"unix:///nonexistent/docker.sock": "systemctl start docker",
		"tcp://127.0.0.1:1":               "DOCKER_HOST",
	} {
		t.Setenv("DOCKER_HOST", host)
		_, err := Connect(t.Context())
		if !errors.Is(err, ErrNoEngine) || errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), host) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// Networks have the names that the user gave, and their bridge where it was named. An engine that is
// reached by TCP may be another machine's: its bridges are not named.
func TestNetworks(t *testing.T) {
	d := dockertest.New(t)
	plain := d.Network("plain", "--label", "tier=front")
	bridge := "rt" + d.Name("")[max(0, len(d.Name(""))-10):]
	named := d.Network("named", "--opt", "com.docker.network.bridge.name="+bridge)
	ask := func() map[string]Network {
		t.Helper()
		list, err := connect(t).Networks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]Network)
		for _, n := range list {
			found[n.Name] = n
		}
		return found
	}
	found := ask()
	if n := found[plain]; n.ID != d.Docker("network", "inspect", "--format", "{{.Id}}", plain) || n.Bridge != "" || n.Labels["tier"] != "front" {
		t.Errorf("%s: %+v", plain, n)
	}
	if n := found[named]; n.Bridge != bridge {
		t.Errorf("%s: %+v, want bridge %s", named, n, bridge)
	}
	t.Setenv("DOCKER_HOST", "tcp://"+relay(t))
	found = ask()
	if n, ok := found[named]; ok || found[plain].ID == "" {
		t.Errorf("by TCP: %s is %+v, %s %+v", named, n, plain, found[plain])
	}
}

// relay gives the engine a TCP address.
func relay(t *testing.T) string {
	t.Helper()
	socket := strings.TrimPrefix(cmp.Or(os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock"), "unix://")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			engine, err := net.Dial("unix", socket)
			if err != nil {
				c.Close()
				return
			}
			go func() { _, _ = io.Copy(engine, c); engine.Close() }()
			go func() { _, _ = io.Copy(c, engine); c.Close() }()
		}
	}()
	return l.Addr().String()
}
