// SPDX-License-Identifier: Apache-2.0

// Package kit is what the commands of radar share: streams, formats, tables, units, exit codes,
// completion. A package of a command gets a Kit, makes a cobra command with it and prints by it.
package kit

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/record"
)

// Kit carries what all commands share.
type Kit struct {
	Stdin  io.Reader
	Stdout io.Writer     // unbuffered: help, long-running commands
	Out    *bufio.Writer // data; flushed when the command ends
	Stderr io.Writer

	LookupEnv func(string) (string, bool)
	Now       func() time.Time
	Location  *time.Location // of the times in tables; JSON has UTC

	Domain  string // --domain
	Output  Format // --output
	Verbose bool   // --verbose
	View    *View  // of a command that prints again and again; nil: it prints once

	// PacketPrinter makes what prints packets as they come, for "radar collect --show packets".
	PacketPrinter func(*Kit) func(*record.Record) error
}

// New returns a kit with the default flags. What is written to stdout and stderr is made safe for
// terminals.
func New(stdin io.Reader, stdout, stderr io.Writer) *Kit {
	shown := Visible(stdout)
	return &Kit{
		Stdin:     stdin,
		Stdout:    shown,
		Out:       bufio.NewWriter(shown),
		Stderr:    Visible(stderr),
		LookupEnv: os.LookupEnv,
		Now:       time.Now,
		Location:  time.Local,
		Domain:    domain.DefaultName,
		Output:    FormatTable,
	}
}

// IsTerminal reports whether f is a terminal; progress goes nowhere else.
func IsTerminal(f any) bool {
	file, ok := Plainest(f).(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// Progressf writes a line to standard error if that is a terminal.
func (k *Kit) Progressf(format string, args ...any) {
	if IsTerminal(k.Stderr) {
		fmt.Fprintf(k.Stderr, format+"\n", args...)
	}
}
