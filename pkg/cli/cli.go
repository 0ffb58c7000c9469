// SPDX-License-Identifier: Apache-2.0

// Package cli is radar's command line: it puts the commands together. Each command has a package
// below this one. What they share is package kit, and what they say package words.
package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

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
	// cobra answers --help before it looks at words: help of the group would be taken for that of what was meant.
	var unknown error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			unknown = cmd.ValidateArgs(words)
		}
		if unknown == nil {
			help(cmd, args)
		}
	})
	cmd, err := root.ExecuteContextC(ctx)
	return k.Finish(cmd, cmp.Or(err, unknown))
}
