// SPDX-License-Identifier: Apache-2.0

// Package cli is radar's command line: it puts the commands together. Each command has a package
// below this one. What they share is package kit, and what they say package words.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/vnetradar/radar/pkg/cli/kit"
)

// Main is the program: it runs the command line of this process and returns its exit code.
func Main() int {
	// A caught SIGPIPE turns into an error of the write, which ends the command
	// quietly; unlike an ignored one it is not inherited by child processes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Run runs one command line and returns its exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	k := kit.New(stdin, stdout, stderr)
	root := newRootCmd(k)
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	cmd, err := root.ExecuteContextC(ctx)
	return k.Finish(cmd, err)
}
