// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/fault"
)

// What the verifier refuses is an error of loading, and comes with its log.
func TestVerifierError(t *testing.T) {
	need.AsRoot(t)
	_, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: asm.Instructions{asm.Return()}})
	err = Error("load programs", err)
	var verifier *ebpf.VerifierError
	if !errors.Is(err, fault.NotLoaded) || errors.Is(err, fault.Unsupported) || !errors.As(err, &verifier) || len(verifier.Log) == 0 {
		t.Errorf("what the verifier refuses: %v", err)
	}
}

// The kinds that exit codes are made of.
func TestErrorKinds(t *testing.T) {
	for cause, kind := range map[error]error{
		unix.EPERM:           fault.Unsupported,
		unix.EACCES:          fault.Unsupported,
		ebpf.ErrNotSupported: fault.Unsupported,
		unix.ENOMEM:          fault.NotLoaded,
	} {
		err := Error("do it", fmt.Errorf("wrapped: %w", cause))
		if !errors.Is(err, kind) || !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "do it") {
			t.Errorf("%v became %v", cause, err)
		}
	}
}
