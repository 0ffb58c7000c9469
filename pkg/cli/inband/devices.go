// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/steer"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/words"
)

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
