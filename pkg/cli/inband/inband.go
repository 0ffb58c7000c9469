// SPDX-License-Identifier: Apache-2.0

// Package inband has "radar int": int is a type of Go.
package inband

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/intwire"
)

// NewCmd returns "radar int" and the commands below it.
func NewCmd(k *kit.Kit) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "int",
		Short: "In-band network telemetry (INT): nodes that speak it, and packets of others",
		Long: `In-band network telemetry (INT) as P4.org has specified it, and telemetry reports: ports of
Linux that speak it, and what switches and hosts of others put into packets and send about
them. docs/int/nodes.md is about the first, docs/int/formats.md says what is supported.`,
		Example: `  radar int attach --role source,sink netns:r1/eth0 netns:r3/eth1
  radar int attach --role transit r1 r3 netns:r2
  radar int status
  radar int decode -r reports.pcap                # every field of every report
  radar int decode --starts-at udp c1231388...    # of bytes that begin with a UDP header`,
	}
	cmd.AddCommand(newDecodeCmd(k), newAttachCmd(k), newDetachCmd(k), newStatusCmd(k), newAgentCmd(k),
		newIntentCmd(k), newConfigCmd(k), newTopologyCmd(k), newStartCmd(k), newStopCmd(k), newDevicesCmd(k), newServiceCmd(k))
	return cmd
}

const decodeLong = `Shows every field of INT in a packet, or of a telemetry report, and every anomaly of
it. The packet is given as hex digits, as one argument or many, with spaces, colons or
0x between them, or as a dump with offsets (xxd, hexdump -C, tcpdump -x, Wireshark); "-"
reads them from standard input, and -r a capture (pcap, pcapng, of Ethernet, raw IP or
Linux cooked links), "-r -" one from standard input.

Which version and variant it is, and under which DSCP or port, is recognised by form.
--profile says what the source is, where that is known: then nothing is guessed.

Values are as on the wire; INT leaves their units to the device. What was sent as "not
available" (all ones) is "invalid". Malformed INT, or none, is no error: what could be
read is shown, and the rest is said under ANOMALIES (-o json: "anomalies"). -o wide also
shows flags that are not set, and domain-specific fields without a domain. -o json prints
one object a packet, with the names of docs/int/decode.md.

Exit codes: 0 also for malformed INT or none, 1 if the input cannot be read.

`

const decodeExample = `  radar int decode 02000000000202000000000108004500...
  radar int decode --starts-at udp 'c123 1388 0028 0000 18070006 20000206 9000 0000 0000 0000 00000002 01000123 00000001 00000045'
  tcpdump -r trace.pcap -c 1 -xx | radar int decode -
  radar int decode -r reports.pcap -o json | jq -c '.reports[]?.embedded.hops_top_first'
  radar int decode --profile geant -r bmv2.pcap`

// decodeOptions are the flags of "radar int decode".
type decodeOptions struct {
	startsAt startsAt
	profile  profileFlag
	file     string
}

func newDecodeCmd(k *kit.Kit) *cobra.Command {
	f := &decodeOptions{startsAt: "ethernet"}
	cmd := &cobra.Command{
		Use:     "decode [--starts-at LAYER] [--profile P] HEX...|-|-r FILE",
		Short:   "Show every field of INT packets and telemetry reports",
		Long:    decodeLong + profilesHelp(),
		Example: decodeExample,
		// Files are completed for -r only.
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if kit.IsTyped(cmd, "read") && len(args) > 0 {
				return fault.Usage.Errorf("hex digits and -r FILE: use one of them")
			}
			if len(args) > 0 {
				return decodeHex(k, f, args)
			}
			if f.file == "" {
				return fault.Usage.Errorf("nothing to decode: use HEX, - for standard input, or -r FILE")
			}
			if kit.IsTyped(cmd, "starts-at") {
				return fault.Usage.Errorf("--starts-at is for hex digits: a capture says what its packets begin with")
			}
			return decodeFile(k, f)
		},
	}
	flags := cmd.Flags()
	flags.Var(&f.startsAt, "starts-at", "what the bytes begin with: "+strings.Join(startNames(), ", "))
	flags.Var(&f.profile, "profile", "what the source is (default: recognised)")
	flags.StringVarP(&f.file, "read", "r", "", "read a capture file")
	kit.CompleteWith(cmd, "starts-at", startNames()...)
	kit.CompleteFlag(cmd, "profile", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return kit.ProfileCompletions(""), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// profilesHelp lists the profiles.
func profilesHelp() string {
	var b strings.Builder
	b.WriteString("Profiles:\n")
	for i := range intwire.Profiles {
		fmt.Fprintf(&b, "  %-14s %s\n", intwire.Profiles[i].Name, intwire.Profiles[i].Title)
	}
	return strings.TrimRight(b.String(), "\n")
}

// startsAt is the value of --starts-at.
type startsAt string

var starts = []struct {
	name  string
	start intwire.Start
}{
	{"ethernet", intwire.StartEthernet},
	{"ip", intwire.StartIP},
	{"udp", intwire.StartUDP},
}

func startNames() (names []string) {
	for _, s := range starts {
		names = append(names, s.name)
	}
	return names
}

func (s *startsAt) String() string { return string(*s) }

// Type names the value in help texts.
func (s *startsAt) Type() string { return "layer" }

// Set checks and sets the layer.
func (s *startsAt) Set(v string) error {
	if !slices.Contains(startNames(), v) {
		return fmt.Errorf("unknown layer %q: use %s", v, strings.Join(startNames(), ", "))
	}
	*s = startsAt(v)
	return nil
}

func (s *startsAt) start() intwire.Start {
	for _, known := range starts {
		if known.name == string(*s) {
			return known.start
		}
	}
	return intwire.StartEthernet
}

// profileFlag is the value of --profile.
type profileFlag struct{ p *intwire.Profile }

func (v *profileFlag) String() string {
	if v.p == nil {
		return ""
	}
	return v.p.Name
}

// Type names the value in help texts.
func (v *profileFlag) Type() string { return "profile" }

// Set checks and sets the profile.
func (v *profileFlag) Set(name string) error {
	if v.p = intwire.ProfileByName(name); v.p != nil {
		return nil
	}
	var all []string
	for i := range intwire.Profiles {
		all = append(all, intwire.Profiles[i].Name)
	}
	return fmt.Errorf("unknown profile %q: use %s", name, strings.Join(all, ", "))
}
