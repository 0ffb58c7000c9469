// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
)

// SelfPath is the running program, even if its file has been replaced.
const SelfPath = "/proc/self/exe"

// FlagReadyFD is the hidden flag of what runs in the background: the descriptor to
// say over that it works.
const FlagReadyFD = "ready-fd"

// readyMessage is what a background agent tells the process that started it,
// once, through a pipe.
type readyMessage struct {
	Error string `json:"error,omitempty"`
	Code  int    `json:"code,omitempty"`
}

// AwaitReady reads the agent's one message. An agent that dies without one is
// io.ErrUnexpectedEOF.
func AwaitReady(r io.Reader) error {
	var msg readyMessage
	if err := json.NewDecoder(r).Decode(&msg); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return WithCode(ExitFailure, fmt.Errorf("it ended before it was ready: %w", err))
	}
	if msg.Error != "" {
		return WithCode(msg.Code, errors.New(msg.Error))
	}
	return nil
}

// TellReady sends the one message over descriptor fd; none is sent for fd 0.
func TellReady(fd int, failure error) error {
	if fd == 0 {
		return nil
	}
	// Only a pipe is written to: the number comes from the command line.
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return fault.Usage.Errorf("--%s %d: not a pipe", FlagReadyFD, fd)
	}
	f := os.NewFile(uintptr(fd), "ready")
	defer f.Close()
	msg := readyMessage{}
	if failure != nil {
		msg = readyMessage{Error: failure.Error(), Code: ExitCode(failure)}
	}
	return PrintJSON(f, msg)
}
