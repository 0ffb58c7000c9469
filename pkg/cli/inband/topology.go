// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/steer"
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

func newTopologyCmd(k *kit.Kit) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "What the INT domain is made of",
		Long: `The nodes and links of the INT domain. From it follows what is behind each port: a device
(the port is transit), or hosts (it is an edge: sources and sinks are there).`,
		Example: `  radar int topology set --lab chain             # of a lab
  radar int topology set --attached              # of the domain of "radar attach"
  radar int topology set -f topology.yaml
  radar int topology show`,
	}
	cmd.AddCommand(newTopologySetCmd(k), newTopologyShowCmd(k))
	return cmd
}

func newTopologySetCmd(k *kit.Kit) *cobra.Command {
	file, labName, attached, dry := "", "", false, false
	var devices []string
	cmd := &cobra.Command{
		Use:   "set -f FILE|--lab NAME|--attached",
		Short: "Say what the INT domain is made of",
		Long: `Say what the INT domain is made of. A topology is taken as it is now: set it again when it
has changed. docs/int/intents.md describes the file.

Of a lab and of an attached domain, nodes with two links or more become devices of driver ebpf,
or those that --device names; all others are hosts.`,
		Example: `  radar int topology set --lab chain --device r1,r2,r3
  radar int topology set -f topology.yaml`,
		Args: exactly(0, "flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			t, err := topologyFrom(k, file, labName, attached, devices)
			if err != nil {
				return err
			}
			if dry {
				return dryRun(k, cmd.Context(), m, control.Change{Topology: &t})
			}
			if err := m.SetTopology(t); err != nil {
				return err
			}
			if k.Output == kit.FormatJSON {
				return kit.PrintJSON(k.Out, t)
			}
			return printDevices(k, m)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "YAML or JSON file, - for standard input")
	flags.StringVar(&labName, "lab", "", "name or folder of a lab")
	flags.BoolVar(&attached, "attached", false, "of the domain of radar attach")
	flags.StringSliceVar(&devices, "device", nil, "nodes that speak INT (default: those with two links or more)")
	flags.BoolVar(&dry, "dry-run", false, "show what each device would get, and change nothing")
	kit.CompleteFlag(cmd, "lab", func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return kit.CompleteLabs(cmd, nil, word)
	})
	return cmd
}

func topologyFrom(k *kit.Kit, file, labName string, attached bool, devices []string) (t control.Topology, err error) {
	given := 0
	for _, is := range []bool{file != "", labName != "", attached} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return t, fault.Usage.Errorf("where does it come from? Use one of -f FILE, --lab NAME and --attached")
	case labName != "":
		return steer.LabTopology(labName, devices)
	case attached:
		return steer.DomainTopology(k.Domain, devices)
	case len(devices) > 0:
		return t, fault.Usage.Errorf("--device is for --lab and --attached: a file says which nodes are devices")
	}
	b, err := readInput(k, file)
	if err != nil {
		return t, err
	}
	if t, err = control.ReadTopology(b); err != nil {
		return t, fmt.Errorf("%s: %w", file, err)
	}
	t.Source = steer.FromFile
	return t, nil
}

func newTopologyShowCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Print the topology as a file", Args: exactly(0, "no argument"),
		Example: "  radar int topology show >topology.yaml",
		RunE: func(*cobra.Command, []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			t, err := m.Topology()
			if err != nil {
				return err
			}
			return printFile(k, t)
		},
	}
}
