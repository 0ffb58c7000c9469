// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// selfPath is the running program, even if its file has been replaced.
const selfPath = "/proc/self/exe"

// flagReadyFD is the hidden flag of what runs in the background: the descriptor to
// say over that it works.
const flagReadyFD = "ready-fd"

// readyMessage is what a background agent tells the process that started it,
// once, through a pipe.
type readyMessage struct {
	Error string `json:"error,omitempty"`
	Code  int    `json:"code,omitempty"`
}

// awaitReady reads the agent's one message. An agent that dies without one is
// io.ErrUnexpectedEOF.
func awaitReady(r io.Reader) error {
	var msg readyMessage
	if err := json.NewDecoder(r).Decode(&msg); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return withCode(exitFailure, fmt.Errorf("it ended before it was ready: %w", err))
	}
	if msg.Error != "" {
		return withCode(msg.Code, errors.New(msg.Error))
	}
	return nil
}

// tellReady sends the one message over descriptor fd; none is sent for fd 0.
func tellReady(fd int, failure error) error {
	if fd == 0 {
		return nil
	}
	// Only a pipe is written to: the number comes from the command line.
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return usagef("--%s %d: not a pipe", flagReadyFD, fd)
	}
	f := os.NewFile(uintptr(fd), "ready")
	defer f.Close()
	msg := readyMessage{}
	if failure != nil {
		msg = readyMessage{Error: failure.Error(), Code: exitCode(failure)}
	}
	return printJSON(f, msg)
}
