// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("x"), ExitFailure},
		{Usagef("x"), ExitUsage},
		{fmt.Errorf("wrapped: %w", WithCode(7, nil)), 7},
		{fmt.Errorf("wrapped: %w", datapath.ErrUsage), ExitUsage},
		{fmt.Errorf("wrapped: %w", topo.ErrUsage), ExitUsage},
		{fmt.Errorf("wrapped: %w", datapath.ErrUnsupported), ExitKernel},
		{fmt.Errorf("wrapped: %w", datapath.ErrLoad), ExitLoad},
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
