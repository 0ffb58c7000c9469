// SPDX-License-Identifier: Apache-2.0

// Command radar measures every packet of a virtual network: which way it went,
// where it waited, where it was lost and why.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A caught SIGPIPE turns into an error of the write, which ends the command
	// quietly; unlike an ignored one it is not inherited by child processes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(stdin, stdout, stderr)
	root := newRootCmd(a)
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	cmd, err := root.ExecuteContextC(ctx)
	return a.finish(cmd, err)
}
