// SPDX-License-Identifier: Apache-2.0

// Package servers runs databases of others for tests, on this machine alone.
package servers

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// Program is where a server's program is: in .cache of the repository, where make deps-test unpacks Debian's packages, or in
// PATH.
func Program(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(root(t), ".cache/servers/usr/bin", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		need.Lack(t, need.Tools, fmt.Sprintf("%v: make deps-servers brings it, and Jaeger make deps-jaeger", err))
	}
	return path
}

// Module is how a module of Python is run that has a virtual environment below .cache. The environment's own scripts name the
// clone that has made it, and clones share it.
func Module(t *testing.T, environment, module string) []string {
	t.Helper()
	return []string{Python(t, environment), "-m", module}
}

// Python is the interpreter of a virtual environment below .cache.
func Python(t *testing.T, environment string) string {
	t.Helper()
	python := filepath.Join(root(t), ".cache", environment, "bin/python")
	if _, err := os.Stat(python); err != nil {
		need.Lack(t, need.Tools, fmt.Sprintf("%v: make deps-servers brings it", err))
	}
	return python
}

// File is a file below .cache that make deps-servers brings.
func File(t *testing.T, path string) string {
	t.Helper()
	path = filepath.Join(root(t), ".cache", path)
	if _, err := os.Stat(path); err != nil {
		need.Lack(t, need.Tools, fmt.Sprintf("%v: make deps-servers brings it", err))
	}
	return path
}

// root is the repository, in which the test runs.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
	}
}

// given are the ports that Free has returned.
var given sync.Map

// Free is an address of 127.0.0.1 that nobody has, and that nobody gets by chance while a server is
// away: its port is below those that Linux gives out itself (ip_local_port_range, from 32768).
func Free(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprint("127.0.0.1:", 20000+rand.IntN(12000))
		if _, twice := given.LoadOrStore(address, true); twice {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// Serve runs a server until the test ends, or stop is called, and waits until url answers.
func Serve(t *testing.T, url string, name string, args ...string) (stop func()) {
	t.Helper()
	output, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command(Program(t, name), args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan struct{})
	stop = func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	nstest.Cleanup(t, func() {
		stop()
		if text, err := os.ReadFile(output.Name()); err == nil && t.Failed() {
			t.Logf("%s said:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	started := make(chan error)
	go func() { // Pdeathsig is about the thread: it must live as long
		defer close(ended)
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, fmt.Sprintf("%s to answer at %s", name, url), func() bool {
		select {
		case <-ended:
			t.Fatalf("%s has ended", name)
		default:
		}
		response, err := http.Get(url)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode/100 == 2
	})
	return stop
}

// Get asks for a page.
func Get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Timeout: nstest.Patience}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(b)
}

// InfluxDB writes the settings of an InfluxDB that is to be at an address, HOST:PORT, and returns
// influxd's arguments. auth says that it asks users who they are.
func InfluxDB(t *testing.T, address string, auth bool) (args []string) {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`reporting-disabled = true
bind-address = %q
[meta]
  dir = %q
[data]
  dir = %q
  wal-dir = %q
[monitor]
  store-enabled = false
[http]
  bind-address = %q
  log-enabled = false
  auth-enabled = %v
`, Free(t), filepath.Join(dir, "meta"), filepath.Join(dir, "data"), filepath.Join(dir, "wal"), address, auth)
	path := filepath.Join(dir, "influxdb.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-config", path}
}
