// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
