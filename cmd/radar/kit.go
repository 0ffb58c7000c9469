// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/domain"
)

// app carries what all commands share.
type app struct {
	stdin  io.Reader
	stdout io.Writer     // unbuffered: help, long-running commands
	out    *bufio.Writer // data; flushed when the command ends
	stderr io.Writer

	lookupEnv func(string) (string, bool)
	now       func() time.Time
	location  *time.Location // of the times in tables; JSON has UTC

	domain  string
	output  outputFormat
	verbose bool
	view    *view       // of a command that prints again and again
	shown   *shownNames // what tables call nodes and ports; nil: as the domain does
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	shown := &visible{w: stdout}
	return &app{
		stdin:     stdin,
		stdout:    shown,
		out:       bufio.NewWriter(shown),
		stderr:    &visible{w: stderr},
		lookupEnv: os.LookupEnv,
		now:       time.Now,
		location:  time.Local,
		domain:    domain.DefaultName,
		output:    formatTable,
	}
}

// isTerminal says whether f is a terminal; progress goes nowhere else.
func isTerminal(f any) bool {
	file, ok := plainest(f).(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// progressf writes a line to standard error if that is a terminal.
func (a *app) progressf(format string, args ...any) {
	if isTerminal(a.stderr) {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}
