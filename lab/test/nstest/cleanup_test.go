// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
)

// A test that is interrupted leaves no namespace.
func TestInterrupt(t *testing.T) {
	if os.Getenv("NSTEST_INTERRUPTED") != "" {
		n := New(t, "a", "b")
		os.Stdout.WriteString(n.prefix + "\n")
		time.Sleep(10 * time.Minute)
		return
	}
	need.AsRoot(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.Command(os.Args[0], "-test.run=TestInterrupt")
		cmd.Env = append(os.Environ(), "NSTEST_INTERRUPTED=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		prefix, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		n := &Net{t: t, prefix: strings.TrimSpace(prefix)}
		if _, err := os.Stat(n.Path("a")); err != nil {
			t.Fatal(err)
		}
		cmd.Process.Signal(signal)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("%v: %v", signal, err)
		}
		for _, name := range []string{"a", "b"} {
			if _, err := os.Stat(n.Path(name)); !os.IsNotExist(err) {
				t.Errorf("%v: namespace %s is left: %v", signal, n.Name(name), err)
				n.Delete(name)
			}
		}
	}
}
