// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("x"), ExitFailure},
		{fault.Usage.Errorf("x"), ExitUsage},
		{fmt.Errorf("wrapped: %w", WithCode(7, nil)), 7},
		{fmt.Errorf("wrapped: %w", fault.Usage), ExitUsage},
		{fmt.Errorf("wrapped: %w", fault.Unsupported), ExitKernel},
		{fmt.Errorf("wrapped: %w", fault.NotLoaded), ExitLoad},
		{domain.ErrNotAttached, ExitFailure},
		{&os.PathError{Op: "open", Err: fs.ErrPermission}, map[bool]int{true: ExitFailure, false: ExitKernel}[os.Geteuid() == 0]},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("exit code of %v: %d, want %d", c.err, got, c.want)
		}
	}
}

// What capabilities open is the system's. A file that a user names is not.
func TestIsOfFile(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", "/home/radar")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&os.PathError{Op: "open", Path: "run1/lock", Err: fs.ErrPermission}, true},
		{fmt.Errorf("write: %w", &os.PathError{Op: "open", Path: "/tmp/x.svg", Err: fs.ErrPermission}), true},
		{errors.Join(errors.New("x"), &os.LinkError{Op: "rename", Old: "/tmp/.x", New: "/tmp/x", Err: fs.ErrPermission}), true},
		{&os.PathError{Op: "open", Path: "/sys/fs/bpf/radar", Err: fs.ErrPermission}, false},
		{&os.PathError{Op: "open", Path: "/run/netns/h1", Err: fs.ErrPermission}, false},
		{&os.PathError{Op: "open", Path: "/home/radar/default", Err: fs.ErrPermission}, false},
		{os.NewSyscallError("bpf", fs.ErrPermission), false},
		{fs.ErrPermission, false},
	} {
		if got := isOfFile(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// A file that cannot be written is the one that was named, not the one that was to take its place.
func TestWriteFileNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "x.svg")
	if err := WriteFile(path, nil); err == nil || err.Error() != "open "+path+": no such file or directory" {
		t.Error(err)
	}
	err := NamedFile("x", &os.LinkError{Op: "rename", Old: ".x1", New: "x", Err: fs.ErrPermission})
	if err == nil || err.Error() != "rename x: permission denied" || !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// The verifier's log is long: it is shown when asked for.
func TestExplainVerifier(t *testing.T) {
	err := fmt.Errorf("load: %w", &ebpf.VerifierError{Cause: errors.New("permission denied"), Log: []string{"0: r0 = 1", "1: exit", "bad things"}})
	if short := explain(err, false); bytes.Contains([]byte(short), []byte("0: r0 = 1")) || !bytes.Contains([]byte(short), []byte("--verbose")) {
		t.Errorf("short text: %s", short)
	}
	if long := explain(err, true); !bytes.Contains([]byte(long), []byte("0: r0 = 1")) {
		t.Errorf("long text: %s", long)
	}
}

// An error is shown as a whole, whatever it was wrapped into, and so is what came from another
// process, as an agent's reason not to start.
func TestErrorsAreRendered(t *testing.T) {
	usage := fault.Usage.Errorf("‹slots› %d: use fewer", 3)
	for _, c := range []struct {
		err  error
		want string
		code int
	}{
		{fmt.Errorf("attach: %w (finish with: «detach ‹domain› red»)", usage), "radar: attach: --slots 3: use fewer (finish with: radar detach --domain red)\nRun 'radar --help' for usage.\n", ExitUsage},
		{errors.Join(errors.New("see «check»"), usage), "radar: see radar check\n--slots 3: use fewer\nRun 'radar --help' for usage.\n", ExitUsage},
		{WithCode(ExitLoad, errors.New(usage.Error())), "radar: --slots 3: use fewer\n", ExitLoad},
	} {
		var stdout, stderr strings.Builder
		k := New(nil, &stdout, &stderr)
		if code := k.Finish(&cobra.Command{Use: "radar"}, c.err); code != c.code || stderr.String() != c.want || stdout.Len() > 0 {
			t.Errorf("%q: code %d, %q, want %d, %q", c.err, code, stderr.String(), c.code, c.want)
		}
	}
}
