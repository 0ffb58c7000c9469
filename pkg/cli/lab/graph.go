// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/graph"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/lab"
)

// drawing is what can be drawn of a lab, whether it runs or not. It is also the
// JSON form of "radar lab graph".
type drawing struct {
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Source      string     `json:"source"`
	Running     bool       `json:"running"`
	Machines    []string   `json:"machines"`
	Links       []lab.Link `json:"links"`
}

func newGraphCmd(k *kit.Kit) *cobra.Command {
	format := kit.GraphFormat(kit.FormatMermaid)
	var set []string
	cmd := &cobra.Command{
		Use:   "graph [LAB|SCENARIO|DIR]",
		Short: "Draw a lab: running, a folder, or a built-in scenario",
		Long: `Draws the machines and links of a lab as a Mermaid flowchart, or with -o dot for
Graphviz. The lab is one that runs, a built-in scenario, or a lab folder (default: the
current one), which need not run: nothing is started. A name that is both means the lab
that runs, unless --set is given.

A link between two machines is a line with the link's name, any other has a shape of
its own.`,
		Example: `  radar lab graph chain --set N=5
  radar lab graph ./mylab -o dot | dot -Tsvg > mylab.svg
  radar lab graph -o json chain | jq -r '.links[].name'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeLabsAndScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := findDrawing(argOrHere(args), set)
			if err != nil {
				return err
			}
			return printDrawing(k, plan, format)
		},
	}
	format.Register(cmd)
	cmd.Flags().StringSliceVar(&set, "set", nil, "set a parameter of the scenario, as NAME=VALUE")
	return cmd
}

// findDrawing finds a lab that runs, else reads a scenario or folder.
func findDrawing(arg string, set []string) (*drawing, error) {
	var hidden error
	if len(set) == 0 {
		l, err := lab.Find(arg)
		switch {
		case err == nil:
			plan := &drawing{Name: l.Name, Description: l.Description, Source: l.Source, Running: true, Links: l.Links}
			for _, m := range l.Machines {
				plan.Machines = append(plan.Machines, m.Name)
			}
			return plan, nil
		case errors.Is(err, fs.ErrPermission):
			hidden = err // who may not see what runs can still draw what could
		case !errors.Is(err, lab.ErrNotRunning):
			return nil, err
		}
	}
	t, err := loadTopology(arg, set)
	if err != nil && hidden != nil {
		return nil, fmt.Errorf("%w; whether a lab of that name runs: %w", err, hidden)
	}
	if err != nil {
		return nil, err
	}
	plan := &drawing{Name: t.Name, Description: t.Description, Source: t.Source, Links: t.Links}
	for _, m := range t.Machines {
		plan.Machines = append(plan.Machines, m.Name)
	}
	return plan, nil
}

func printDrawing(k *kit.Kit, p *drawing, format kit.GraphFormat) error {
	w := k.Stdout
	switch format {
	case kit.FormatMermaid:
		return p.graph().Mermaid(w)
	case kit.FormatDOT:
		return p.graph().DOT(w)
	case kit.GraphFormat(kit.FormatJSON):
		return kit.PrintJSON(w, p)
	}
	machines := kit.NewTable(kit.Column{Title: "MACHINE"}, kit.Column{Title: "INTERFACES"})
	for _, m := range p.Machines {
		machines.Add(m, strings.Join(interfacesOf(p.Links, m), " "))
	}
	if err := machines.Flush(w); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return printLinks(w, p.Links)
}

func (p *drawing) graph() *graph.Graph {
	g := &graph.Graph{Name: p.Name}
	vertices := make(map[string]int)
	for _, m := range p.Machines {
		vertices[m] = g.Add(graph.Vertex{Label: m, Kind: graph.Node})
	}
	for _, l := range p.Links {
		if l.Kind == lab.Direct {
			a, b := l.Members[0], l.Members[1]
			g.Connect(graph.Edge{From: vertices[a.Machine], To: vertices[b.Machine],
				FromPort: a.Interface, ToPort: b.Interface, More: []string{l.Name}})
			continue
		}
		link := g.Add(graph.Vertex{Label: l.Name, Kind: graph.Bridge})
		for _, m := range l.Members {
			g.Connect(graph.Edge{From: link, To: vertices[m.Machine], ToPort: m.Interface})
		}
	}
	return g
}

// completeLabsAndScenarios completes what "lab graph" takes; folders are left to
// the shell.
func completeLabsAndScenarios(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := kit.CompleteLabs(cmd, args, toComplete)
	builtin, _ := completeScenarios(cmd, args, toComplete)
	return append(names, builtin...), cobra.ShellCompDirectiveDefault
}
