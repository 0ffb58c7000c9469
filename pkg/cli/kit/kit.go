// SPDX-License-Identifier: Apache-2.0

// Package kit is what the commands of radar share: streams, formats, tables, exit codes, flags,
// completion, and asking for answers. A package of a command gets a Kit, makes a cobra command with it and prints by it.
package kit

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
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

	// recorded is what --read names; nil: the domain is asked.
	recorded *answer.Recorded

	held *[]string // notes that are said below the rows; nil: say them at once

	// Shown is what tables call nodes and ports; nil: as the domain does.
	Shown *wording.Names
}

// New returns a kit with the default flags. What is written to stdout and stderr is made safe for
// terminals.
func New(stdin io.Reader, stdout, stderr io.Writer) *Kit {
	shown := Visible(stdout)
	return &Kit{
		Stdin:     stdin,
		Stdout:    shown,
		Out:       bufio.NewWriter(shown),
		Stderr:    VisibleMessages(stderr),
		LookupEnv: os.LookupEnv,
		Now:       time.Now,
		Location:  time.Local,
		Domain:    system.DefaultName,
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

// Prepare takes flags from the environment and checks those that all commands have, before a
// command runs.
func (k *Kit) Prepare(cmd *cobra.Command) error {
	if err := bindEnv(cmd, k.LookupEnv); err != nil {
		return err
	}
	if err := checkStateDir(k.LookupEnv); err != nil {
		return err
	}
	if err := statedir.CheckDomain(k.Domain); err != nil {
		return fault.Usage.Errorf("%w", err)
	}
	if f := cmd.Flags().Lookup("output"); Format(f.Value.String()).Raw() { // some commands have their own
		k.Out.Reset(k.ForPrograms())
	}
	return checkFormat(cmd, k.Output)
}
