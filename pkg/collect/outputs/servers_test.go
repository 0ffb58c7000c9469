// SPDX-License-Identifier: Apache-2.0

package outputs

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
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// program is where a server's program is: in .cache/servers of the repository, where make
// deps-test unpacks Debian's packages, or in PATH.
func program(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join("../../../.cache/servers/usr/bin", name)
	if _, err := os.Stat(path); err == nil {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		need.Lack(t, need.Tools, fmt.Sprintf("%v: make deps-servers brings it", err))
	}
	return path
}

// given are the ports that free has returned.
var given sync.Map

// free is an address of 127.0.0.1 that nobody has, and that nobody gets by chance while a server is
// away: its port is below those that Linux gives out itself (ip_local_port_range, from 32768).
func free(t *testing.T) string {
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

// serve runs a server until the test ends, or stop is called, and waits until url answers.
func serve(t *testing.T, url string, name string, args ...string) (stop func()) {
	t.Helper()
	output, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command(program(t, name), args...)
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

func get(t *testing.T, url string) (int, string) {
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
