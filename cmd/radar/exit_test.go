// SPDX-License-Identifier: Apache-2.0

package main

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
		{nil, exitOK},
		{errors.New("x"), exitFailure},
		{usagef("x"), exitUsage},
		{fmt.Errorf("wrapped: %w", withCode(7, nil)), 7},
		{fmt.Errorf("wrapped: %w", datapath.ErrUsage), exitUsage},
		{fmt.Errorf("wrapped: %w", topo.ErrUsage), exitUsage},
		{fmt.Errorf("wrapped: %w", datapath.ErrUnsupported), exitKernel},
		{fmt.Errorf("wrapped: %w", datapath.ErrLoad), exitLoad},
		{domain.ErrNotAttached, exitFailure},
		{&os.PathError{Op: "open", Err: fs.ErrPermission}, map[bool]int{true: exitFailure, false: exitKernel}[os.Geteuid() == 0]},
	} {
		if got := exitCode(c.err); got != c.want {
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
