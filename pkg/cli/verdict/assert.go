// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/assertion"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

const assertLong = `Hold promises about packets against what packets met. FILE is YAML, a list of
assertions; each has a name, selects packets and checks one thing:

  assertions:
    - name: the server answers fast
      select: {dst: 10.0.2.2, proto: tcp, sport: 1024-65535}
      latency: {p99: 5ms}
    - name: nothing is lost
      no_loss: true

Checks are no_loss, loss, latency, path, crosses, never_crosses, balance, nat,
no_reordering, rate, packets, cause and never_cause. --schema prints the JSON schema of the file: editors
complete and check it. docs/verdicts.md describes each check.

Packets that have not ended are left out. An assertion about no packets fails, and says
why there are none, unless it says if_empty: pass.

The flags that select packets narrow what every assertion is about: --since 1m, for
packets of the last minute.

Exit codes: 0 all hold, 1 some fail, 2 the file or a flag is wrong.

--junit writes results for CI systems as JUnit XML. --annotations prints each failure as
a command for a GitHub workflow, which shows it at the assertion's line; it is on where
the variable GITHUB_ACTIONS is "true".`

// assertOptions are the flags of "radar assert".
type assertOptions struct {
	kit.SelectFlags
	junit       string
	annotations bool
	schema      bool
}

// NewAssertCmd returns "radar assert".
func NewAssertCmd(k *kit.Kit) *cobra.Command {
	f := &assertOptions{}
	cmd := &cobra.Command{
		Use:   "assert FILE",
		Short: "Hold promises about packets against what packets met",
		Long:  assertLong,
		Example: `  radar assert lab.yaml
  radar assert lab.yaml --since 1m --junit results.xml
  radar assert lab.yaml -o json | jq 'select(.verdict == "fails")'
  radar assert --schema > assertions.schema.json`,
		Annotations: kit.HasCSV,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.schema {
				_, err := k.Out.Write(assertion.Schema())
				return err
			}
			if len(args) != 1 {
				return fault.Usage.Errorf("%d arguments: use FILE, - for standard input", len(args))
			}
			if !cmd.Flags().Changed("annotations") {
				on, _ := k.LookupEnv("GITHUB_ACTIONS")
				f.annotations = on == "true"
			}
			within, err := f.Selection(cmd.Flags(), nil, k.Now())
			if err != nil {
				return err
			}
			return assert(k, cmd.Context(), f, within, args[0])
		},
	}
	f.Add(k, cmd, "only the newest N packets of each assertion; 0: all")
	cmd.ValidArgsFunction = cobra.FixedCompletions([]cobra.Completion{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	flags := cmd.Flags()
	flags.StringVar(&f.junit, "junit", "", "write results to this file as JUnit XML")
	flags.BoolVar(&f.annotations, "annotations", false, "print failures as commands for a GitHub workflow")
	flags.BoolVar(&f.schema, "schema", false, "print the JSON schema of FILE")
	return cmd
}

// assert reads a file, asks, and prints.
func assert(k *kit.Kit, ctx context.Context, f *assertOptions, within *answer.Selection, name string) error {
	text, err := readFile(k, name, assertion.MaxBytes)
	if err != nil {
		return err
	}
	file, err := assertion.Read(name, text)
	if err != nil {
		return err
	}
	var results []assertion.Result
	if err := k.ReadSources(within, func(s *answer.Sources) error {
		results, err = holdAll(k, ctx, f, within, name, file, s)
		return err
	}); err != nil {
		return err
	}
	for i := range results {
		results[i].Cause = kit.Face.Render(results[i].Cause)
	}
	if f.junit != "" {
		if err := writeJUnit(f.junit, name, k.Now(), results); err != nil {
			return err
		}
	}
	if err := printResults(k, results); err != nil {
		return err
	}
	failed := 0
	for _, r := range results {
		if r.Verdict == assertion.Fails {
			failed++
		}
	}
	if f.annotations {
		printAnnotations(k, name, results)
	}
	if failed > 0 {
		return kit.WithCode(kit.ExitFailure, fmt.Errorf("%d of %d assertions fail", failed, len(results)))
	}
	return nil
}

// readFile reads a file that users write, or standard input, up to one byte more than most.
func readFile(k *kit.Kit, name string, most int64) ([]byte, error) {
	in := k.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fault.Usage.Errorf("%w", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// explainBalance adds to a balance that does not hold what its node hashes.
func explainBalance(ctx context.Context, s *answer.Sources, a *assertion.Assertion, r *assertion.Result) {
	if a.Balance == nil || a.Balance.At == "" || r.Verdict != assertion.Fails || r.Packets == 0 || !s.HashesAddresses(ctx, a.Balance.At) {
		return
	}
	text := a.Balance.At + " chooses by addresses alone (net.ipv4.fib_multipath_hash_policy=0): flows between two hosts all go one way"
	if r.Cause != "" {
		text = r.Cause + "; " + text
	}
	r.Cause = text
}

// holdAll holds each assertion of a file against packets. Nothing is asked if one is wrong.
func holdAll(k *kit.Kit, ctx context.Context, f *assertOptions, within *answer.Selection, name string, file *assertion.File, s *answer.Sources) ([]assertion.Result, error) {
	selections := make([]*answer.Selection, len(file.Assertions))
	var errs []error
	for i := range file.Assertions {
		a := &file.Assertions[i]
		chosen, err := f.Of(a.Select.Spec(), a.Select.Filter)
		if err != nil {
			errs = append(errs, a.ErrorAt(name, "select."+err.Error()))
			continue
		}
		if err := checkNames(s, a, chosen); err != "" {
			errs = append(errs, a.ErrorAt(name, err))
		}
		chosen.Within(within)
		selections[i] = chosen
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	k.Note(s.Lacks())
	said := make(map[string]bool)
	results := make([]assertion.Result, len(selections))
	for i := range selections {
		trial, links := assertion.New(&file.Assertions[i]), s.LinksNow(ctx)
		notes, err := s.Records(ctx, selections[i], func(r *record.Record) error {
			trial.Add(r)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if file.Assertions[i].Explains() {
			more, err := explainAll(ctx, s, links, within, trial)
			if err != nil {
				return nil, err
			}
			notes = append(notes, more...)
		}
		texts := k.Sentences().Texts(notes)
		results[i] = trial.Result(func() string {
			why := strings.Join(texts, "; ")
			texts = nil
			return why
		})
		texts = append(texts, k.Sentences().Texts(answer.SilentNodes(links))...)
		explainBalance(ctx, s, &file.Assertions[i], &results[i])
		for _, text := range texts {
			if !said[text] {
				said[text] = true
				k.Notef("%s", text)
			}
		}
	}
	return results, nil
}

// explainAll gives a trial all packets of the time, of both directions of its flows.
func explainAll(ctx context.Context, s *answer.Sources, links *placenow.Links, within *answer.Selection, trial *assertion.Trial) ([]answer.Note, error) {
	all, err := ofFlows(within)
	if err != nil {
		return nil, err
	}
	return s.Records(ctx, all, func() func(*record.Record) error {
		add := trial.Explain(analyzers(s, links))
		return func(r *record.Record) error {
			add(r)
			return nil
		}
	}())
}

// checkNames says which node or port that an assertion names is not there; "": all are.
func checkNames(s *answer.Sources, a *assertion.Assertion, chosen *answer.Selection) string {
	for _, node := range append(a.Nodes(), chosen.Nodes()...) {
		if s.HasNode(node) {
			continue
		}
		text := fmt.Sprintf("there is no node %q", node)
		if d := s.Domain(); d != nil {
			var names []string
			for _, n := range d.Nodes {
				names = append(names, n.Name)
			}
			slices.Sort(names)
			text += fault.Meant(node, names) + ": there are " + strings.Join(slices.Compact(names), ", ")
		}
		return text
	}
	if d := s.Domain(); d != nil {
		for _, place := range a.Places() {
			if node, port, is := strings.Cut(place, "/"); is && !slices.Contains(portsOf(d, node), port) {
				return fmt.Sprintf("node %s has no port %q: it has %s", node, port, strings.Join(portsOf(d, node), ", "))
			}
		}
	}
	return ""
}

// portsOf are the names of a node's ports.
func portsOf(d *domain.Domain, node string) (names []string) {
	add := func(id uint16, name string) {
		if n := d.NodeByID(id); n != nil && n.Name == node {
			names = append(names, name)
		}
	}
	for _, p := range d.Ports {
		add(p.Node, p.Name)
	}
	for _, m := range d.Members {
		add(m.Node, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// printResults prints a row for each assertion, and below it the packets that speak most against it.
func printResults(k *kit.Kit, results []assertion.Result) error {
	if k.Output.Raw() {
		return kit.PrintRows(k, results)
	}
	t := kit.NewTable(kit.Column{Title: "VERDICT"}, kit.Column{Title: "ASSERTION"}, kit.Column{Title: "PROMISED"},
		kit.Column{Title: "MEASURED"}, kit.Column{Title: "PACKETS", Right: true}, kit.Column{Title: "EVIDENCE"})
	for _, r := range results {
		var ids []string
		for _, e := range r.Evidence {
			ids = append(ids, e.ID)
		}
		if k.Output != kit.FormatWide && len(ids) > 2 {
			ids = append(ids[:2:2], "...")
		}
		t.Add(string(r.Verdict), r.Name, r.Promised, r.Measured, fmt.Sprint(r.Packets), strings.Join(ids, " "))
	}
	if err := t.Flush(k.Out); err != nil {
		return err
	}
	for _, r := range results {
		if r.Verdict != assertion.Fails {
			continue
		}
		fmt.Fprintf(k.Out, "\n%s (line %d) fails: promised %s, measured %s\n", r.Name, r.Line, r.Promised, r.Measured)
		if r.Cause != "" {
			fmt.Fprintf(k.Out, "  why: %s\n", r.Cause)
		}
		for _, e := range r.Evidence {
			what := "packet"
			if strings.Contains(r.Check, "cause") {
				what = "flow"
			}
			fmt.Fprintf(k.Out, "  %s %s: %s\n", what, e.ID, e.What)
		}
	}
	return nil
}
