// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/pkg/fault"
)

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	once := Logger{Log: slog.New(slog.NewTextHandler(&out, nil))}
	lines := func() int { return strings.Count(out.String(), "\n") }
	once.Warn("look", nil)
	if lines() != 0 {
		t.Errorf("no error, but: %s", out.String())
	}
	for range 3 {
		once.Warn("look", errors.New("a"))
	}
	if lines() != 1 {
		t.Errorf("a repeated error: %s", out.String())
	}
	once.Warn("look", errors.New("b"))
	once.Warn("look", nil)
	once.Warn("look", nil)
	if lines() != 3 || !strings.Contains(out.String(), "works again") {
		t.Errorf("another error and its end: %s", out.String())
	}
	// A full disk is one episode, whatever the temporary files are called.
	for i := range 3 {
		full := &fs.PathError{Op: "write", Path: fmt.Sprint("/run/.aggregates", i), Err: syscall.ENOSPC}
		once.Warn("save", fmt.Errorf("save: %w", errors.Join(full, errors.New("and more"))))
	}
	if lines() != 4 || !strings.Contains(out.String(), "/run/.aggregates0") {
		t.Errorf("a full disk: %s", out.String())
	}
	// What kind an error is of is no cause.
	if text := causes(fmt.Errorf("refresh: %w", fault.Usage.Errorf("‹hook› tcx"))); text != "‹hook› tcx" {
		t.Errorf("wrong usage: %s", text)
	}
}
