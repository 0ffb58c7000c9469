// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/control/p4runtime"
)

const p4Long = `Gives a P4 switch a program and the table entries of a file, by P4Runtime. Without
a file, entries are read from standard input. It waits until the switch is there.
Startup scripts of labs call it.

Entries are written as simple_switch_CLI has them: table_add, table_set_default and
mirroring_add. Empty lines, and lines that begin with #, are passed over.`

// p4Options are the flags of "lab p4".
type p4Options struct {
	device  uint64
	program string
	info    string
	timeout time.Duration
}

func newP4Cmd() *cobra.Command {
	o := p4Options{timeout: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "p4 ADDRESS:PORT [FILE]",
		Short: "Give a P4 switch its program and table entries",
		Long:  p4Long,
		Example: `  simple_switch_grpc --device-id 1 --no-p4 -i 1@eth0 -i 2@eth1 -- --grpc-server-addr 127.0.0.1:9559 &
  radar lab p4 --device-id 1 --program p4/build/radar_v1model.json \
    --p4info p4/build/radar_v1model.p4info.txtpb 127.0.0.1:9559 entries.txt`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runP4(cmd, args, o)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&o.device, "device-id", 0, "number of the switch, as it was started with")
	flags.StringVar(&o.program, "program", "", "compiled program, BMv2's JSON")
	flags.StringVar(&o.info, "p4info", "", "description of the program, P4Info as text")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "how long the switch may take to be there")
	return cmd
}

func runP4(cmd *cobra.Command, args []string, o p4Options) error {
	if o.program == "" || o.info == "" {
		return fault.Usage.Errorf("name the program by --program and --p4info")
	}
	if o.timeout <= 0 {
		return fault.Usage.Errorf("--timeout %v: use a positive duration", o.timeout)
	}
	binary, err := os.ReadFile(o.program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	info, err := os.ReadFile(o.info)
	if err != nil {
		return fmt.Errorf("read the program's description: %w", err)
	}
	program, err := p4runtime.NewProgram(info, binary)
	if err != nil {
		return fmt.Errorf("%s: %w", o.info, err)
	}
	text, err := readEntries(cmd, args[1:])
	if err != nil {
		return fmt.Errorf("read entries: %w", err)
	}
	if _, err := program.Commands(text); err != nil {
		return fault.Usage.Errorf("entries, %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), o.timeout, fmt.Errorf("no P4Runtime answers there within %v", o.timeout))
	defer cancel()
	s, err := p4runtime.Dial(ctx, p4runtime.Target{Address: args[0], Device: o.device})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Load(ctx, program); err != nil {
		return err
	}
	if err := s.Run(ctx, text); err != nil {
		return fmt.Errorf("entries: %w", err)
	}
	return nil
}

func readEntries(cmd *cobra.Command, file []string) (string, error) {
	if len(file) == 0 {
		b, err := io.ReadAll(cmd.InOrStdin())
		return string(b), err
	}
	b, err := os.ReadFile(file[0])
	return string(b), err
}
