// SPDX-License-Identifier: Apache-2.0

package background

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/kernel"
)

// readyMessage is what a background process sends to the one that started it,
// once, through a pipe.
type readyMessage struct {
	Error string     `json:"error,omitempty"`
	Kind  fault.Kind `json:"kind,omitempty"`
}

// AwaitReady reads the one message. A process that dies without one is
// io.ErrUnexpectedEOF.
func AwaitReady(r io.Reader) error {
	var msg readyMessage
	if err := json.NewDecoder(r).Decode(&msg); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("it ended before it was ready: %w", err)
	}
	switch {
	case msg.Error == "":
		return nil
	case msg.Kind != "":
		return msg.Kind.Errorf("%s", msg.Error)
	}
	return errors.New(msg.Error)
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
		msg = readyMessage{Error: failure.Error(), Kind: kindOf(failure)}
	}
	return json.NewEncoder(f).Encode(msg)
}

// kindOf is what a failure means to who asked.
func kindOf(err error) fault.Kind {
	for _, kind := range []fault.Kind{fault.Usage, fault.NotLoaded, fault.Unsupported} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	if errors.Is(err, fs.ErrPermission) && kernel.LacksRights() {
		return fault.Unsupported
	}
	return ""
}
