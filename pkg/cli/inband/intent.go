// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/steer"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

const intentLong = `An intent says what to observe: a part of the traffic, network states, and how. It says
nothing of devices. "radar int start" brings all devices of the topology to what intents
ask for, and keeps them there. docs/int/intents.md shows it from beginning to end.

Of a packet that several intents are of, the one of the greatest priority counts; of equal
ones the older.`

func newIntentCmd(k *kit.Kit) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "intent",
		Short: "What INT devices are to observe",
		Long:  intentLong,
		Example: `  radar int intent add web --proto tcp --dport 80,443 --states node-id,hop-latency,queue --sample 10
  radar int intent add --dry-run dns --proto udp --dport 53 --mode xd --lifetime 1h
  radar int intent list
  radar int intent apply -f intents.yaml
  radar int intent remove web`,
	}
	cmd.AddCommand(newIntentAddCmd(k), newIntentListCmd(k), newIntentShowCmd(k), newIntentRemoveCmd(k), newIntentApplyCmd(k), newIntentExportCmd(k), newIntentSchemaCmd(k))
	return cmd
}

// management opens that of the command's domain.
func management(k *kit.Kit) (*steer.Management, error) { return steer.Open(k.Domain) }

// intentOptions are the flags of "radar int intent add".
type intentOptions struct {
	src, dst, sport, dport []string
	proto, expr            string
	dscp                   int
	states                 []string
	mode                   string
	sample                 kit.Count
	hops                   uint8
	priority               int
	lifetime               time.Duration
	expires                string
	fallback               string
	devices                []string
	replace                bool
	dryRun                 bool
}

func newIntentAddCmd(k *kit.Kit) *cobra.Command {
	f := &intentOptions{dscp: -1, sample: 1}
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add an intent",
		Long: `Add an intent. Without flags it asks for the default states of all TCP and UDP, in the
packets (INT-MD).

Either --expr says which packets, in tcpdump's language, or fields of the 5-tuple do. Of a
list one value must match, and all flags must. What a device cannot do is refused and told, or
with --fallback approximate, it observes more packets, or other states.`,
		Example: `  radar int intent add all
  radar int intent add web --proto tcp --dst 10.0.0.0/8 --dport 80,8000-8099 --sample 10
  radar int intent add voice --expr 'udp and ip[1] & 0xfc = 0xb8' --mode xd --priority 5
  radar int intent add look --src 10.1.0.7 --lifetime 15m --dry-run`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return addIntent(k, cmd, f, args[0]) },
	}
	f.register(cmd)
	return cmd
}

// exactly wants so many arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return fault.Usage.Errorf("%d arguments: use %s", len(args), what)
		}
		return nil
	}
}

func (f *intentOptions) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.src, "src", nil, "source addresses or prefixes")
	flags.StringSliceVar(&f.dst, "dst", nil, "destination addresses or prefixes")
	flags.StringVar(&f.proto, "proto", "", "tcp or udp (default: both)")
	flags.StringSliceVar(&f.sport, "sport", nil, "source ports or ranges")
	flags.StringSliceVar(&f.dport, "dport", nil, "destination ports or ranges")
	flags.IntVar(&f.dscp, "dscp", -1, "DSCP, 0 to 63 (default: any)")
	flags.StringVar(&f.expr, "expr", "", "packets that match this filter expression, in tcpdump's language")
	flags.StringSliceVar(&f.states, "states", nil, "network states to observe: "+strings.Join(node.InstructionNames(), ", ")+" (default: "+node.InstructionText(node.DefaultInstructions)+")")
	flags.StringVar(&f.mode, "mode", "md", "md, md1.0, mx, xd or backpack (radar's own: packets stay as they are)")
	flags.Var(&f.sample, "sample", "one packet in N")
	flags.Uint8Var(&f.hops, "hops", 0, fmt.Sprintf("nodes that may add metadata, the source among them (md; default %d)", control.DefaultHops))
	flags.IntVar(&f.priority, "priority", 0, "the greatest comes first where intents overlap")
	flags.DurationVar(&f.lifetime, "lifetime", 0, "how long the intent lives (default: for ever)")
	flags.StringVar(&f.expires, "expires", "", "when it ends, such as 2030-01-31T12:00:00Z")
	flags.StringVar(&f.fallback, "fallback", string(control.Refuse), "what becomes of it where a device cannot do it exactly: refuse or approximate")
	flags.StringSliceVar(&f.devices, "device", nil, "give INT at these devices only (default: all)")
	flags.BoolVar(&f.replace, "replace", false, "replace the intent of that name")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what each device would get, and change nothing")
	kit.CompleteWith(cmd, "proto", "tcp", "udp")
	kit.CompleteWith(cmd, "mode", "md", "md1.0", "mx", "xd", "backpack")
	kit.CompleteWith(cmd, "fallback", string(control.Refuse), string(control.Approximate))
	kit.CompleteFlag(cmd, "states", completeInstructions)
	cmd.MarkFlagsMutuallyExclusive("lifetime", "expires")
}

// intent is what the flags say.
func (f *intentOptions) intent(cmd *cobra.Command, name string) (control.Intent, error) {
	i := control.Intent{
		Name: name, States: f.states, Mode: control.Mode(f.mode), Sample: uint32(f.sample), Hops: f.hops, Priority: f.priority,
		Fallback: control.Fallback(f.fallback), Devices: f.devices,
		Slice: control.Slice{Src: f.src, Dst: f.dst, Proto: f.proto, Sport: f.sport, Dport: f.dport, Expr: f.expr},
	}
	if i.Fallback == control.Refuse {
		i.Fallback = ""
	}
	if i.Sample == 1 {
		i.Sample = 0
	}
	if cmd.Flags().Changed("dscp") {
		if f.dscp < 0 || f.dscp > 63 {
			return i, fault.Usage.Errorf("--dscp %d: use 0 to 63", f.dscp)
		}
		dscp := uint8(f.dscp)
		i.Slice.DSCP = &dscp
	}
	if cmd.Flags().Changed("lifetime") {
		if f.lifetime < time.Second {
			return i, fault.Usage.Errorf("--lifetime %v: use 1s or more", f.lifetime)
		}
		i.Expires = time.Now().Add(f.lifetime).UTC().Truncate(time.Millisecond)
	}
	if f.expires != "" {
		at, err := time.Parse(time.RFC3339, f.expires)
		if err != nil {
			return i, fault.Usage.Errorf("--expires %q: use a time such as 2030-01-31T12:00:00Z", f.expires)
		}
		i.Expires = at.UTC()
	}
	return i, nil
}

func addIntent(k *kit.Kit, cmd *cobra.Command, f *intentOptions, name string) error {
	m, err := management(k)
	if err != nil {
		return err
	}
	i, err := f.intent(cmd, name)
	if err != nil {
		return err
	}
	if f.dryRun {
		return dryRun(k, cmd.Context(), m, control.Change{Add: &i})
	}
	if f.replace {
		err = m.Put(i)
	} else {
		err = m.Add(i)
	}
	if err != nil {
		return err
	}
	return said(k, cmd.Context(), m, map[string]any{"added": name}, "intent %s is added", name)
}

// said prints what a command has done, when devices have it, or that nobody does it yet.
func said(k *kit.Kit, ctx context.Context, m *steer.Management, v any, format string, args ...any) error {
	service, err := m.Service()
	if err != nil {
		return err
	}
	late := false
	if service.Running {
		if late, err = settled(ctx, m, changePatience); err != nil {
			return err
		}
	}
	if k.Output == kit.FormatJSON {
		err = kit.PrintJSON(k.Out, v)
	} else {
		_, err = fmt.Fprintf(k.Out, format+"\n", args...)
	}
	if err != nil {
		return err
	}
	switch {
	case late:
		k.Notef("not all devices have it yet: radar int devices says which")
	case service.Wanted && !service.Running:
		k.Notef("the service does not live: radar int start starts it")
	case !service.Running:
		k.Notef("nothing is brought to devices yet: radar int start")
	}
	return nil
}

func newIntentRemoveCmd(k *kit.Kit) *cobra.Command {
	dry := false
	cmd := &cobra.Command{
		Use:               "remove NAME",
		Short:             "Remove an intent",
		Args:              exactly(1, "NAME"),
		Example:           "  radar int intent remove web",
		ValidArgsFunction: completeIntents(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			if dry {
				return dryRun(k, cmd.Context(), m, control.Change{Remove: args[0]})
			}
			if err := m.Remove(args[0]); err != nil {
				return err
			}
			return said(k, cmd.Context(), m, map[string]any{"removed": args[0]}, "intent %s is removed", args[0])
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what each device would lose, and change nothing")
	return cmd
}

// completeIntents completes names of intents.
func completeIntents(k *kit.Kit) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (choices []cobra.Completion, _ cobra.ShellCompDirective) {
		if m, err := management(k); err == nil && len(args) == 0 {
			list, _ := m.Intents()
			for i := range list {
				choices = append(choices, list[i].Name)
			}
		}
		return choices, cobra.ShellCompDirectiveNoFileComp
	}
}

func newIntentApplyCmd(k *kit.Kit) *cobra.Command {
	file, dry := "", false
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make the intents those of a file",
		Long: `Make the intents those of a file, in YAML or JSON: others are removed. The file is a list
of intents, or has one as "intents"; "radar int intent schema" prints its JSON schema. What is
wrong is named with its place, such as intents[2].slice.dport, and nothing is changed then.`,
		Example: `  radar int intent apply -f intents.yaml --dry-run
  radar int intent export | ssh other radar int intent apply -f -`,
		Args: exactly(0, "-f FILE"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return fault.Usage.Errorf("which file? -f FILE, or -f - for standard input")
			}
			b, err := readInput(k, file)
			if err != nil {
				return err
			}
			list, err := control.ReadIntents(b, time.Now())
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			m, err := management(k)
			if err != nil {
				return err
			}
			if dry {
				return dryRun(k, cmd.Context(), m, control.Change{Intents: list})
			}
			if err := m.Apply(list); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return said(k, cmd.Context(), m, map[string]any{"intents": len(list)}, "the intents are those of %s: there are %d", file, len(list))
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file of intents, - for standard input")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what each device would get, and change nothing")
	return cmd
}

// readInput reads a file that users write, or standard input.
func readInput(k *kit.Kit, file string) ([]byte, error) {
	in := k.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fault.Usage.Errorf("%w", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, control.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return b, nil
}

func newIntentExportCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Print the intents as a file for apply",
		Long:  `Print the intents as YAML, or with -o json as JSON, as "radar int intent apply" reads them. Those whose time is over are left out.`,
		Args:  exactly(0, "no argument"),
		Example: `  radar int intent export >intents.yaml
  radar int intent export -o json | jq '.intents[].name'`,
		RunE: func(*cobra.Command, []string) error {
			m, err := management(k)
			if err != nil {
				return err
			}
			list, err := m.Intents()
			if err != nil {
				return err
			}
			kept := []control.Intent{}
			for _, i := range list {
				if i.Expires.IsZero() || i.Expires.After(time.Now()) {
					i.Created = time.Time{} // their order says who is older
					kept = append(kept, i)
				}
			}
			return printFile(k, map[string]any{"intents": kept})
		},
	}
}

// printFile prints something as a file that users can change.
func printFile(k *kit.Kit, v any) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, v)
	}
	b, err := json.Marshal(v) // its names, and its order
	if err == nil {
		b, err = yaml.JSONToYAML(b)
	}
	if err != nil {
		return err
	}
	_, err = k.Out.Write(b)
	return err
}

func newIntentSchemaCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of a file of intents",
		Args:    exactly(0, "no argument"),
		Example: "  radar int intent schema >intents.schema.json   # editors check a file by it",
		RunE: func(*cobra.Command, []string) error {
			_, err := k.Out.Write(control.Schema())
			return err
		},
	}
}

// dryRun prints what devices would get.
func dryRun(k *kit.Kit, ctx context.Context, m *steer.Management, c control.Change) error {
	plans, err := m.DryRun(ctx, c)
	if err != nil {
		return err
	}
	return printPlans(k, plans)
}
