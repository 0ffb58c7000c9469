// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/steer"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
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
			if cmd.Flags().Changed("collector") || cmd.Flags().Changed("via") {
				sayRoute(k, cmd.Context(), c.Full())
			}
			return said(k, cmd.Context(), m, c.Full(), "the config is changed")
		},
	}
	d, flags := control.DefaultConfig(), cmd.Flags()
	flags.StringVar(&f.Mark, "mark", d.Mark, "what marks packets that bear INT: dscp=VALUE/MASK, or port=N of UDP")
	flags.StringVar(&f.Collector, "collector", d.Collector, "HOST:PORT that telemetry reports go to")
	flags.StringVar(&f.Via, "via", "", "namespace that reports of eBPF nodes are sent from: netns:NAME, docker:NAME or pid:N (default: that of the service)")
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

// sayRoute says by which interface and router reports of eBPF nodes leave now: by a router they may leave the machine.
func sayRoute(k *kit.Kit, ctx context.Context, c control.Config) {
	to, err := kit.ResolveCollector(ctx, c.Collector)
	if err != nil {
		fmt.Fprintf(k.Stderr, "radar: --collector: %v\n", err)
		return
	}
	way, err := steer.RouteOfReports(ctx, c.Via, to.Addr())
	if err != nil {
		fmt.Fprintf(k.Stderr, "radar: reports to %s cannot be sent now: %v (--via names the namespace that they are sent from)\n", c.Collector, err)
		return
	}
	text := fmt.Sprintf("reports to %s are sent from %s by %s", c.Collector, way.From, way.Interface)
	if way.Router.IsValid() {
		text += fmt.Sprintf(", to router %v: is the collector behind it? --via names another namespace", way.Router)
	}
	fmt.Fprintf(k.Stderr, "radar: %s\n", text)
}

// change changes what flags name.
func (f *configOptions) change(cmd *cobra.Command, c *control.Config) error {
	given := cmd.Flags().Changed
	for flag, set := range map[string]func(){
		"mark": func() { c.Mark = f.Mark }, "collector": func() { c.Collector = f.Collector }, "via": func() { c.Via = f.Via }, "report": func() { c.Report = f.Report },
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

// How long "radar int start" and "stop" wait for devices, and how long a change does while the service runs.
const (
	patience       = 30 * time.Second
	changePatience = 10 * time.Second
)

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
				if _, err := settled(cmd.Context(), m, patience); err != nil {
					return err
				}
			}
			return printDevices(k, m)
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for devices")
	return cmd
}

// settled waits until no device is about to get something, at most so long. late: some still are.
func settled(ctx context.Context, m *steer.Management, most time.Duration) (late bool, err error) {
	inner, stop := context.WithTimeout(ctx, most)
	defer stop()
	for {
		w, err := m.Wanted()
		if err != nil {
			return false, err
		}
		st, err := m.Status()
		if err != nil {
			return false, err
		}
		service, err := m.Service()
		if err != nil {
			return false, err
		}
		busy := slices.ContainsFunc(st.Devices, func(d control.DeviceStatus) bool {
			return d.State == control.Connecting || d.State == control.Applying || d.State == control.Leaving
		})
		if st.Seen == w.Generation && st.PID == service.PID && !busy {
			return false, nil
		}
		if !kit.Wait(inner, 50*time.Millisecond) {
			return true, ctx.Err()
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
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return k.InBackground(readyFD, func(b *kit.Background) error {
		m, err := management(k)
		if err != nil {
			return err
		}
		return m.Serve(ctx, b.Log, b.Ready)
	})
}
