// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const hangupChild = "RADAR_TEST_HANGUP"

// A terminal that goes ends a recording as Ctrl-C does: neither a second signal nor words that nobody reads do so before
// the files are finished.
func TestHangup(t *testing.T) {
	if os.Getenv(hangupChild) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestHangup$")
		cmd.Env = append(os.Environ(), hangupChild+"=1")
		// Where nohup has begun the tests, a child would ignore the signal as they do, and so would the recorder.
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGHUP)
		defer signal.Stop(heard)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = w
		r.Close()
		err = cmd.Run()
		w.Close()
		if err != nil {
			t.Errorf("the recorder: %v", err)
		}
		return
	}
	ctx, release := untilHangup(context.Background())
	defer release()
	for range 2 {
		if err := unix.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
	}
	if _, err := os.Stderr.WriteString("unread\n"); err == nil {
		t.Error("somebody reads it")
	}
}
