// SPDX-License-Identifier: Apache-2.0

// Package capture has "radar capture", "radar wireshark" and what Wireshark runs to capture.
package capture

import (
	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/cli/wire"
	"github.com/vnetradar/radar/pkg/fault"
)

const captureLong = `Capture a whole domain, live, until Ctrl-C: a file for Wireshark (pcapng) with an interface
for each port of each node, and a frame for each port at which a packet was seen. A frame
has the header that the packet had there, as sockets see it: addresses behind NAT, TTL,
DSCP, IP ID. It ends behind the headers, unless payload is asked for. Its comment
says which packet it is, how long it waited, and where and why it was lost; "radar
wireshark --install" brings a plugin that makes fields of that.

Frames of a packet are written once it has ended. --at keeps those of some ports, for what
counts a packet that is seen twice as a retransmission, as Wireshark does of TCP.

` + kit.SelectionHelp + `

With --since packets that have ended already come first. docs/wireshark.md has more.`

const captureExample = `  radar capture -w lab.pcapng
  radar capture | wireshark -k -i -
  radar capture | tshark -i - -Y 'radar.loss.reason == "QDISC_DROP"'
  radar capture --at r2/eth1 -c 1000 -w r2.pcapng tcp port 80
  radar capture --snaplen 256 --payload-at h2/eth0 -w lab.pcapng`

// captureOptions are the flags of "radar capture".
type captureOptions struct {
	kit.SelectFlags
	write   string
	count   kit.Count
	at      []string
	payload wire.PayloadFlags
}

// NewCmd returns "radar capture".
func NewCmd(k *kit.Kit) *cobra.Command {
	f := &captureOptions{}
	cmd := &cobra.Command{
		Use:     "capture [-w FILE] " + kit.EndsUse,
		Short:   "Capture a whole domain for Wireshark, live",
		Long:    captureLong,
		Example: captureExample,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(k, cmd, args) },
	}
	f.Add(k, cmd, "")
	flags := cmd.Flags()
	_ = flags.MarkHidden("last")
	flags.StringVarP(&f.write, "write", "w", wire.Stdout, "write to FILE, - is standard output")
	flags.VarP(&f.count, "count", "c", "end after N packets; 0: no limit")
	wire.AddAt(k, cmd, &f.at)
	f.payload.Add(k, cmd)
	return cmd
}

func (f *captureOptions) run(k *kit.Kit, cmd *cobra.Command, args []string) error {
	switch {
	case kit.IsTyped(cmd, "output"):
		return fault.Usage.Errorf("-o says how packets are printed, radar capture writes them for Wireshark: radar packets -f -o %s", k.Output)
	case kit.IsTyped(cmd, "last"):
		return fault.Usage.Errorf("--last: a capture begins now, or with --since; what there is: radar packets --last N -w FILE")
	}
	payload, err := f.payload.Query(f.at)
	if err != nil {
		return err
	}
	s, err := f.Selection(cmd.Flags(), args, k.Now())
	if err != nil {
		return err
	}
	s.Last = 0
	q := wire.Query{Selection: s, History: cmd.Flags().Changed("since"), Count: int(f.count), Ports: f.at, Payload: payload}
	return k.ReadRing(s, func(ring *answer.Ring) error {
		k.Note(ring.Lacks())
		return wire.Follow(cmd.Context(), k, ring, q, f.write)
	})
}
