// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/steer"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/words"
)

func newConfigCmd(k *kit.Kit) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "What holds for all devices: collector, mark, ids",
		Long: `What holds for all devices that intents are brought to. The mark changes in steps: sources
stop, packets under way pass, and then devices get the new one.`,
		Example: "  radar int config get\n  radar int config set --collector 10.0.0.9:32766 --node-id s1=7",
	}
	cmd.AddCommand(newConfigGetCmd(k), newConfigSetCmd(k))
	return cmd
}

func newConfigGetCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use: "get", Short: "Print the config", Args: exactly(0, "no argument"),
		Example: "  radar int config get -o json",
		RunE: func(*cobra.Command, []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			c, err := m.Config()
			if err != nil {
				return err
			}
			return printFile(k, c)
		},
	}
}

// configOptions are the flags of "radar int config set".
type configOptions struct {
	control.Config
	ids    map[string]string
	dryRun bool
}

func newConfigSetCmd(k *kit.Kit) *cobra.Command {
	f := &configOptions{}
	cmd := &cobra.Command{
		Use:     "set",
		Short:   "Change the config: what no flag names stays",
		Args:    exactly(0, "flags"),
		Example: "  radar int config set --mark port=5000\n  radar int config set --node-id s1=7,s2=8 --dry-run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			w, err := m.Wanted()
			if err != nil {
				return err
			}
			c := w.Config
			if err := f.change(cmd, &c); err != nil {
				return err
			}
			if f.dryRun {
				return dryRun(k, cmd.Context(), m, control.Change{Config: &c})
			}
			if err := m.SetConfig(c); err != nil {
				return err
			}
			return said(k, m, c.Full(), "the config is changed")
		},
	}
	d, flags := control.DefaultConfig(), cmd.Flags()
	flags.StringVar(&f.Mark, "mark", d.Mark, "what marks packets that bear INT: dscp=VALUE/MASK, or port=N of UDP")
	flags.StringVar(&f.Collector, "collector", d.Collector, "HOST:PORT that telemetry reports go to")
	flags.StringVar(&f.Report, "report", d.Report, "version of telemetry reports: 2.0 or 1.0")
	flags.IntVar(&f.Quote, "quote", d.Quote, "bytes of a packet behind its headers that a report quotes")
	flags.Uint16Var(&f.DomainID, "domain-id", 0, "domain specific id that sources write (INT 2.1)")
	flags.StringToStringVar(&f.ids, "node-id", nil, "ids of devices in INT, as NAME=ID (default: the smallest that is free)")
	flags.BoolVar(&f.AssumeSinks, "assume-sinks", false, "give INT while a device that is to take it off cannot be reached")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what each device would get, and change nothing")
	kit.CompleteWith(cmd, "report", node.Report20, node.Report10)
	kit.CompleteWith(cmd, "mark", "dscp=0x17/0x3f", "port=5000")
	return cmd
}

// change changes what flags name.
func (f *configOptions) change(cmd *cobra.Command, c *control.Config) error {
	given := cmd.Flags().Changed
	for flag, set := range map[string]func(){
		"mark": func() { c.Mark = f.Mark }, "collector": func() { c.Collector = f.Collector }, "report": func() { c.Report = f.Report },
		"quote": func() { c.Quote = f.Quote }, "domain-id": func() { c.DomainID = f.DomainID }, "assume-sinks": func() { c.AssumeSinks = f.AssumeSinks },
	} {
		if given(flag) {
			set()
		}
	}
	ids := make(map[string]uint32)
	for name, id := range c.NodeIDs {
		ids[name] = id
	}
	for name, text := range f.ids {
		id, err := strconv.ParseUint(text, 0, 32)
		if err != nil {
			return fault.Usage.Errorf("--node-id %s=%s: use NAME=ID, the id 1 to 4294967294", name, text)
		}
		for other, has := range ids { // who had it gets another one
			if has == uint32(id) {
				delete(ids, other)
			}
		}
		ids[name] = uint32(id)
	}
	c.NodeIDs = ids
	return nil
}

// patience is how long "radar int start" and "stop" wait for devices.
const patience = 30 * time.Second

func newStartCmd(k *kit.Kit) *cobra.Command {
	noWait := false
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Bring devices to what intents ask for, and keep them there",
		Long: `Start the service in the background. It brings all devices of the topology to what intents
ask for: first those that take INT off, then sources. A device that was restarted gets its
entries again, and one that cannot be reached holds up no other. The service may be killed and
started again: it asks devices what they hold.

The command waits until all devices are ready, at most 30 s, and says which are not.`,
		Example: "  radar int start\n  radar int devices",
		Args:    exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			if _, err := m.Start(cmd.Context()); err != nil {
				return err
			}
			if !noWait {
				if err := settled(cmd.Context(), m); err != nil {
					return err
				}
			}
			return printDevices(k, m)
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for devices")
	return cmd
}

// settled waits until no device is about to get something, at most patience.
func settled(ctx context.Context, m *steer.Management) error {
	inner, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		w, err := m.Wanted()
		if err != nil {
			return err
		}
		st, err := m.Status()
		if err != nil {
			return err
		}
		service, err := m.Service()
		if err != nil {
			return err
		}
		busy := slices.ContainsFunc(st.Devices, func(d control.DeviceStatus) bool {
			return d.State == control.Connecting || d.State == control.Applying || d.State == control.Leaving
		})
		if st.Seen == w.Generation && st.PID == service.PID && !busy || !kit.Wait(inner, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func newStopCmd(k *kit.Kit) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Take INT off all devices, and end the service",
		Long: `Take INT off all devices: sources first, then, when packets under way have passed, all
others, and end the service. Intents, config and topology stay for the next start.

A device that cannot be reached may still hold something, and the service waits for it. --force
leaves such devices as they are.`,
		Example: "  radar int stop\n  radar int stop --force",
		Args:    exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(cmd.Context(), patience)
			defer stop()
			if err := m.Stop(ctx, force); err != nil {
				return err
			}
			if k.Output == kit.FormatJSON {
				return kit.PrintJSON(k.Out, map[string]any{"domain": k.Domain, "stopped": true})
			}
			_, err = fmt.Fprintf(k.Out, "INT domain %s: INT is off all devices\n", k.Domain)
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "leave devices that cannot be reached as they are")
	return cmd
}

// newServiceCmd is the service that "radar int start" starts.
func newServiceCmd(k *kit.Kit) *cobra.Command {
	var readyFD int
	cmd := &cobra.Command{
		Use:    "service",
		Short:  "Be the service of an INT domain, until INT is not wanted any more",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return runService(k, cmd.Context(), readyFD) },
	}
	cmd.Flags().IntVar(&readyFD, background.FlagReadyFD, 0, "pipe to tell when it works")
	return cmd
}

func runService(k *kit.Kit, ctx context.Context, readyFD int) error {
	k.Stderr = kit.BoundLog(k.Stderr)
	log := slog.New(slog.NewTextHandler(k.Stderr, nil))
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	m, err := management(k)
	if err != nil {
		return errors.Join(err, background.TellReady(readyFD, err))
	}
	told := false
	err = m.Serve(ctx, log, func() {
		told = true
		if err := background.TellReady(readyFD, nil); err != nil {
			log.Warn("tell that the service is ready", "error", err)
		}
	})
	if err != nil && !told {
		return errors.Join(err, background.TellReady(readyFD, err))
	}
	return err
}

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

func newDevicesCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:         "devices",
		Short:       "Show devices that intents are brought to, and their state",
		Annotations: kit.HasCSV,
		Long: `Show the devices of the topology, what is behind their ports, and how far the service has
brought them.

  ready        it holds what is wanted
  waiting      it takes INT off, and gives none until others do that
  applying     it gets what it is to hold
  unreachable  it does not answer: it is tried again, less and less often
  failed       it answers, and refuses
  leaving      it is to hold nothing, and still may
  off          it holds nothing`,
		Example: "  radar int devices\n  radar int devices -o json | jq '.[].counters'",
		Args:    exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			return printDevices(k, m)
		},
	}
}

// deviceRow is a device in CSV.
type deviceRow struct {
	Name    string `json:"name"`
	Driver  string `json:"driver"`
	NodeID  uint32 `json:"node_id"`
	State   string `json:"state"`
	Edges   string `json:"edges"`
	Transit string `json:"transit"`
	Entries int    `json:"entries"`
	Error   string `json:"error"`
}

func printDevices(k *kit.Kit, m *steer.Management) error {
	list, err := m.Devices()
	if err != nil {
		return err
	}
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, list)
	}
	rows := make([]deviceRow, len(list))
	for i, d := range list {
		ports := make(map[control.Role][]string)
		for _, p := range d.Ports {
			ports[p.Role] = append(ports[p.Role], p.Name)
		}
		rows[i] = deviceRow{d.Name, d.Driver, d.NodeID, string(d.State), strings.Join(ports[control.Edge], " "), strings.Join(ports[control.Transit], " "), d.Entries, d.Error}
	}
	if k.Output == kit.FormatCSV {
		return kit.PrintRows(k, rows)
	}
	t := kit.NewTable(kit.Column{Title: "DEVICE"}, kit.Column{Title: "DRIVER"}, kit.Column{Title: "ID", Right: true}, kit.Column{Title: "STATE"},
		kit.Column{Title: "EDGES"}, kit.Column{Title: "TRANSIT"}, kit.Column{Title: "ENTRIES", Right: true}, kit.Column{Title: "SOURCE", Right: true}, kit.Column{Title: "SINK", Right: true})
	for i, r := range rows {
		count := func(name string) string {
			if n, is := list[i].Counters[name]; is {
				return strconv.FormatUint(n, 10)
			}
			return "-"
		}
		t.Add(r.Name, r.Driver, strconv.FormatUint(uint64(r.NodeID), 10), r.State, or(r.Edges), or(r.Transit), strconv.Itoa(r.Entries), count("source"), count("sink"))
	}
	if err := t.Flush(k.Out); err != nil {
		return err
	}
	for _, d := range list {
		if d.Error != "" {
			k.Notef("%s: %s", d.Name, kit.Face.Render(d.Error))
		}
		for _, text := range d.Notes {
			k.Notef("%s: %s", d.Name, kit.Face.Render(text))
		}
	}
	return nil
}

func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// intentRow is an intent with what became of it.
type intentRow struct {
	control.Intent
	State   control.IntentState `json:"state"`
	On      []string            `json:"on_devices,omitempty"`
	Reasons []control.Reason    `json:"reasons,omitempty"`
}

func intentRows(m *steer.Management) ([]intentRow, []control.Conflict, error) {
	list, err := m.Intents()
	if err != nil {
		return nil, nil, err
	}
	st, err := m.Status()
	if err != nil {
		return nil, nil, err
	}
	rows := make([]intentRow, len(list))
	for i := range list {
		rows[i] = intentRow{Intent: list[i], State: control.Pending}
		for _, s := range st.Intents {
			if s.Name == list[i].Name {
				rows[i].State, rows[i].On, rows[i].Reasons = s.State, s.Devices, s.Reasons
			}
		}
		if !list[i].Expires.IsZero() && !list[i].Expires.After(time.Now()) {
			rows[i].State = control.Expired
		}
	}
	return rows, st.Conflicts, nil
}

func newIntentListCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List intents, and what became of them",
		Long: `List intents in their order of priority, and what became of them.

  applied       all devices that it is for hold it
  partly        some do
  approximated  devices do something like it, as it allows
  refused       no device can do it
  shadowed      another one gets all of its packets
  expired       its time is over
  pending       no device has it yet`,
		Example: "  radar int intent list\n  radar int intent list -o json | jq '.[] | {name, state, reasons}'",
		Args:    exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			rows, conflicts, err := intentRows(m)
			if err != nil {
				return err
			}
			if k.Output == kit.FormatJSON {
				return kit.PrintJSON(k.Out, rows)
			}
			return printIntents(k, rows, conflicts)
		},
	}
}

func printIntents(k *kit.Kit, rows []intentRow, conflicts []control.Conflict) error {
	t := kit.NewTable(kit.Column{Title: "INTENT"}, kit.Column{Title: "STATE"}, kit.Column{Title: "PRIORITY", Right: true}, kit.Column{Title: "MODE"},
		kit.Column{Title: "PACKETS"}, kit.Column{Title: "SAMPLE", Right: true}, kit.Column{Title: "ENDS"}, kit.Column{Title: "ON"})
	for i := range rows {
		r := &rows[i]
		ends := "never"
		if !r.Expires.IsZero() {
			ends = r.Expires.In(k.Location).Format(time.DateTime)
		}
		mode := r.Mode
		if mode == "" {
			mode = control.MD
		}
		t.Add(r.Name, string(r.State), strconv.Itoa(r.Priority), string(mode), r.Slice.String(), "1/"+strconv.FormatUint(uint64(max(r.Sample, 1)), 10), ends, or(strings.Join(r.On, " ")))
	}
	if err := t.Flush(k.Out); err != nil {
		return err
	}
	for i := range rows {
		for _, reason := range rows[i].Reasons {
			if rows[i].State != control.Shadowed {
				k.Notef("%s: %s", rows[i].Name, kit.Face.Render(reason.Text))
			}
		}
	}
	for _, c := range conflicts {
		k.Notef("%s", c.Text)
	}
	return nil
}

func newIntentShowCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show an intent, and what became of it", Args: exactly(1, "NAME"),
		Example:           "  radar int intent show web",
		ValidArgsFunction: completeIntents(k),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			if _, err := m.Intent(args[0]); err != nil {
				return err
			}
			rows, _, err := intentRows(m)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(rows, func(r intentRow) bool { return r.Name == args[0] })
			if i < 0 {
				return steer.ErrNoIntent // removed meanwhile
			}
			return printFile(k, rows[i])
		},
	}
}

func printPlans(k *kit.Kit, plans []control.DevicePlan) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, plans)
	}
	for _, p := range plans {
		switch {
		case p.Error != "":
			fmt.Fprintf(k.Out, "%s (%s) cannot be asked: %s\n", p.Device, p.Driver, kit.Face.Render(p.Error))
		case len(p.Lines) == 0:
			fmt.Fprintf(k.Out, "%s (%s) holds all of it\n", p.Device, p.Driver)
		default:
			fmt.Fprintf(k.Out, "%s (%s): %s\n", p.Device, p.Driver, words.Plural(len(p.Lines), "change"))
		}
		for _, line := range p.Lines {
			fmt.Fprintf(k.Out, "  %s\n", kit.Face.Render(line))
		}
		for _, r := range p.Refused {
			fmt.Fprintf(k.Out, "  refused: intent %s, %s: %s\n", r.Intent, r.Field, kit.Face.Render(r.Text))
		}
		for _, r := range p.Approximated {
			fmt.Fprintf(k.Out, "  approximated: intent %s, %s: %s\n", r.Intent, r.Field, kit.Face.Render(r.Text))
		}
	}
	if len(plans) == 0 {
		k.Notef("no device is known: radar int topology set")
	}
	return nil
}
