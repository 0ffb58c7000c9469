// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/cli/wire"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/vnet/payload"
)

// nicPrefix is before the name of a domain in the name of its interface.
const nicPrefix = "radar-"

// extcapOptions are what Wireshark asks for (extcap(4)).
type extcapOptions struct {
	interfaces, dlts, config, capture bool
	nic, fifo, filter                 string
	at                                []string
	expression                        string
	payload                           wire.PayloadFlags
}

// NewExtcapCmd returns "radar extcap", which Wireshark runs by the script that "radar wireshark --install" makes.
func NewExtcapCmd(k *kit.Kit) *cobra.Command {
	f := &extcapOptions{}
	cmd := &cobra.Command{
		Use:    "extcap",
		Short:  "What Wireshark runs to list domains and to capture one",
		Hidden: true,
		Args:   cobra.NoArgs,
		// Newer Wiresharks ask for more.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE:               func(cmd *cobra.Command, _ []string) error { return f.run(k, cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.interfaces, "extcap-interfaces", false, "list interfaces")
	flags.BoolVar(&f.dlts, "extcap-dlts", false, "list link types of an interface")
	flags.BoolVar(&f.config, "extcap-config", false, "list settings of an interface")
	flags.BoolVar(&f.capture, "capture", false, "capture")
	flags.StringVar(&f.nic, "extcap-interface", "", "the interface")
	flags.StringVar(&f.fifo, "fifo", "", "where to write")
	flags.StringVar(&f.filter, "extcap-capture-filter", "", "only packets that this expression matches")
	flags.StringVar(&f.expression, "expression", "", "the same, as a setting")
	wire.AddAt(k, cmd, &f.at)
	f.payload.Add(k, cmd)
	return cmd
}

func (f *extcapOptions) run(k *kit.Kit, cmd *cobra.Command) error {
	if f.interfaces {
		return listInterfaces(k)
	}
	name, ok := strings.CutPrefix(f.nic, nicPrefix)
	if !ok {
		return fault.Usage.Errorf("--extcap-interface %q: the interfaces are called %sDOMAIN", f.nic, nicPrefix)
	}
	k.Domain = name
	switch {
	case f.dlts:
		_, err := fmt.Fprintln(k.Out, "dlt {number=101}{name=RAW}{display=Raw IP}")
		return err
	case f.config:
		return listSettings(k)
	}
	s, err := f.selection()
	switch {
	case f.capture && err != nil:
		return err
	case f.capture && f.fifo == "":
		return fault.Usage.Errorf("--capture: where to is missing (--fifo)")
	case f.capture:
		return f.record(k, cmd, s)
	case err != nil: // Wireshark asks whether the filter is one
		_, err = fmt.Fprintln(k.Out, kit.Face.Render(err.Error()))
		return err
	}
	return nil
}

func listInterfaces(k *kit.Kit) error {
	names, err := answer.Attached()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(k.Out, "extcap {version=1.0}{display=radar}")
	for _, name := range names {
		_, failed := fmt.Fprintf(k.Out, "interface {value=%s%s}{display=radar: lab %s}\n", nicPrefix, name, name)
		err = errors.Join(err, failed)
	}
	return err
}

// listSettings lists what the window of an interface's settings asks for.
func listSettings(k *kit.Kit) error {
	d, err := answer.Network(k.Domain)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("arg {number=0}{call=--at}{display=Nodes}{tooltip=Frames that were seen at these nodes; none chosen: at all}{type=multicheck}\n")
	for _, n := range d.Nodes {
		if !n.Removed && !n.Machine {
			fmt.Fprintf(&b, "value {arg=0}{value=%s}{display=%s}{default=false}\n", sentence(n.Name), sentence(n.Name))
		}
	}
	b.WriteString("arg {number=1}{call=--expression}{display=Only packets that match}{tooltip=An expression as for tcpdump, such as udp port 53}{type=string}\n")
	fmt.Fprintf(&b, "arg {number=2}{call=--snaplen}{display=Bytes of payload}{tooltip=What users send, so many bytes of each packet at the ports below; 0: none}{type=unsigned}{range=0,%d}{default=0}\n", payload.MaxLen)
	b.WriteString("arg {number=3}{call=--payload-at}{display=Payload at}{tooltip=Ports at which payload is captured}{type=multicheck}\n")
	for _, name := range wire.Interfaces(d) {
		fmt.Fprintf(&b, "value {arg=3}{value=%s}{display=%s}{default=false}\n", sentence(name), sentence(name))
	}
	_, err = fmt.Fprint(k.Out, b.String())
	return err
}

// sentence is a text without what ends a value there.
func sentence(text string) string {
	return strings.NewReplacer("{", "(", "}", ")", "\n", " ").Replace(text)
}

// selection is what of the packets is asked for.
func (f *extcapOptions) selection() (*answer.Selection, error) {
	s, err := answer.Select(filter.Spec{})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, text := range []string{f.filter, f.expression} {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, "("+text+")")
		}
	}
	if len(all) == 0 {
		return s, nil
	}
	return s, s.Narrow(strings.Join(all, " and "))
}

// record captures until Wireshark has seen enough. What is said here, Wireshark shows in a window.
func (f *extcapOptions) record(k *kit.Kit, cmd *cobra.Command, s *answer.Selection) error {
	ports := slices.DeleteFunc(f.at, func(name string) bool { return name == "" })
	payload, err := f.payload.Query(ports)
	if err != nil {
		return err
	}
	return k.ReadRing(s, func(ring *answer.Ring) error {
		return wire.Follow(cmd.Context(), k, ring, wire.Query{Selection: s, Ports: ports, Quiet: true, Payload: payload}, f.fifo)
	})
}
