// SPDX-License-Identifier: Apache-2.0

// Package export has "radar export".
package export

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/export"
)

// NewCmd returns "radar export" and the commands below it.
func NewCmd(k *kit.Kit, version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Send what radar measures to collectors",
		Long:  "Send the packets that radar measures to programs that collect, as they end.",
		Example: `  radar export int --collector 10.0.0.9:32766      # INT telemetry reports
  radar export ipfix --collector 10.0.0.9:4739     # flow records
  radar export otlp --endpoint http://10.0.0.9:4317 # traces`,
	}
	cmd.AddCommand(newIntCmd(k), newIPFIXCmd(k), newOTLPCmd(k, version))
	return cmd
}

const intLong = `Send INT telemetry reports about the packets that radar measures, over UDP: as they
end, from now on, until Ctrl-C, or with --last or --since those that the ring still
has. Each report goes to every --collector.

A packet is one report, as an INT sink sends it: the packet's headers with an INT-MD
stack of all hops (--mode int-md), or one report of each node (--mode int-xd). The
node that dropped a packet sends a drop report. What is in them, what is not and why
says docs/int/export.md.

Nodes have the numbers that the domain gave them, or those of --node-id; they are
shown at the start. Ports are interface indices. With --sample N, 1 packet in N is
reported, with all its nodes, chosen by its id.

Packets to the collectors themselves are not reported. Standard error says at the
end what was sent, what was not, and why; -o json prints it, and the nodes at the
start.

` + kit.SelectionHelp

const intExample = `  radar export int --collector 10.0.0.9:32766
  radar export int --collector [2001:db8::9]:32766 --collector backup:32766 --sample 100
  radar export int --collector 10.0.0.9:32766 --report-version 1.0 --node-id r1=101,r2=102
  radar export int --collector 10.0.0.9:32766 --since 5m --state lost
  radar export int --collector 10.0.0.9:32766 --mode int-xd udp port 53`

// options are the flags of "radar export int".
type options struct {
	kit.SelectFlags
	collectors []string
	version    string
	mode       string
	nodeIDs    []string
	port       uint16
	dscp       uint8
	sample     kit.Count
	rate       kit.Count
}

func newIntCmd(k *kit.Kit) *cobra.Command {
	f := &options{version: "2.0", mode: modeMD, sample: 1}
	cmd := &cobra.Command{
		Use:     "int --collector HOST:PORT... " + kit.EndsUse,
		Short:   "Send INT telemetry reports",
		Long:    intLong,
		Example: intExample,
		RunE:    func(cmd *cobra.Command, args []string) error { return run(k, cmd, f, args) },
	}
	f.AddLive(k, cmd, "send the newest N that the ring has, and end; 0: all")
	flags := cmd.Flags()
	flags.StringSliceVar(&f.collectors, "collector", nil, "where reports go, HOST:PORT or [IPV6]:PORT; of several each gets all")
	flags.StringVar(&f.version, "report-version", f.version, "version of the telemetry reports: 2.0 (with INT 2.1) or 1.0 (with INT 1.0)")
	flags.StringVar(&f.mode, "mode", f.mode, "int-md: a report for each packet, with a stack; int-xd: one for each node of its way")
	flags.StringSliceVar(&f.nodeIDs, "node-id", nil, "node id of a node, NAME=ID (default: the domain's own number)")
	flags.Uint16Var(&f.port, "int-port", 0, fmt.Sprintf("UDP port that marks INT in quoted packets (default of 2.0: %d)", export.DefaultPort))
	flags.Uint8Var(&f.dscp, "int-dscp", 0, fmt.Sprintf("DSCP that marks it instead, over TCP and UDP alone (default of 1.0: %d)", export.DefaultDSCP))
	flags.Var(&f.sample, "sample", "report 1 packet in N")
	flags.Var(&f.rate, "rate", "send at most N reports a second to each collector; 0: no limit")
	kit.CompleteWith(cmd, "report-version", "2.0", "1.0")
	kit.CompleteWith(cmd, "mode", modeMD, modeXD)
	kit.CompleteFlag(cmd, "node-id", func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if strings.Contains(typed, "=") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := k.NodesExcept(nil, true)
		for i := range names {
			names[i] += "="
		}
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	return cmd
}

// Modes of INT (INT 2.1, "INT Modes of Operation").
const (
	modeMD = "int-md"
	modeXD = "int-xd"
)

// versions are the values of --report-version.
var versions = map[string]export.Version{"2.0": export.TR20, "1.0": export.TR10}

// check refuses what no domain would make right.
func (f *options) check(cmd *cobra.Command, s *answer.Selection) error {
	_, known := versions[f.version]
	switch {
	case len(f.collectors) == 0:
		return fault.Usage.Errorf("no --collector: where shall reports go? Use HOST:PORT")
	case !known:
		return fault.Usage.Errorf("--report-version %q: use 2.0 or 1.0", f.version)
	case f.mode != modeMD && f.mode != modeXD:
		return fault.Usage.Errorf("--mode %q: use %s or %s", f.mode, modeMD, modeXD)
	case f.port != 0 && f.dscp != 0:
		return fault.Usage.Errorf("--int-port and --int-dscp: use one of them, INT is marked in one way")
	case f.mode == modeXD && (kit.IsTyped(cmd, "int-port") || kit.IsTyped(cmd, "int-dscp")):
		return fault.Usage.Errorf("--int-port and --int-dscp mark INT in packets: with --mode %s there is none", modeXD)
	}
	return refuseInFlight(s)
}

// encoder makes the encoder that the flags ask for.
func (f *options) encoder(n *export.Numbers) (*export.Encoder, error) {
	e, err := export.NewEncoder(versions[f.version], export.Mark{Port: f.port, DSCP: f.dscp}, n)
	if err != nil {
		return nil, fault.Usage.Errorf("%w", err)
	}
	e.PerHop = f.mode == modeXD
	return e, nil
}

// chosenIDs are those of --node-id.
func (f *options) chosenIDs() (map[string]uint32, error) {
	ids := make(map[string]uint32)
	for _, s := range f.nodeIDs {
		at := strings.LastIndexByte(s, '=')
		if at <= 0 {
			return nil, fault.Usage.Errorf("--node-id %q: use NAME=ID", s)
		}
		id, err := strconv.ParseUint(s[at+1:], 0, 32)
		if err != nil {
			return nil, fault.Usage.Errorf("--node-id %q: use NAME=ID, the id 1 to %d", s, uint32(math.MaxUint32-1))
		}
		if _, twice := ids[s[:at]]; twice {
			return nil, fault.Usage.Errorf("--node-id %s: twice", s[:at])
		}
		ids[s[:at]] = uint32(id)
	}
	return ids, nil
}
