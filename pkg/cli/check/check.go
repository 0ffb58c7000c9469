// SPDX-License-Identifier: Apache-2.0

// Package check has "radar check".
package check

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// checkReport is the JSON form of "radar check".
type checkReport struct {
	OK     bool            `json:"ok"` // nothing that radar needs is missing
	Checks []program.Check `json:"checks"`
}

// NewCmd returns "radar check".
func NewCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say what this kernel and user can and cannot do",
		Long: `Say what this kernel and this user can and cannot do, and what to change.

A line with "fail" names something that radar cannot do without: the exit code
is then 3. A line with "warn" names something that costs speed or detail.`,
		Example: "  sudo radar check\n  radar check -o json | jq '.checks[] | select(.level != \"ok\")'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return run(k, append(program.Checks(), checkFilter()))
		},
	}
}

// run prints the checks, and fails if one of them did.
func run(k *kit.Kit, checks []program.Check) error {
	report := checkReport{OK: true, Checks: checks}
	for i, c := range checks {
		checks[i].Detail, checks[i].Fix = kit.Face.Render(c.Detail), kit.Face.Render(c.Fix)
		report.OK = report.OK && c.Level != program.Fail
	}
	if err := printReport(k, report); err != nil {
		return err
	}
	if !report.OK {
		return kit.WithCode(kit.ExitKernel, fmt.Errorf("this machine or user lacks something that radar needs: see the lines with \"fail\""))
	}
	return nil
}

func printReport(k *kit.Kit, report checkReport) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, report)
	}
	t := kit.NewTable(kit.Column{Title: "LEVEL"}, kit.Column{Title: "CHECK"}, kit.Column{Title: "DETAIL"})
	for _, c := range report.Checks {
		t.Add(string(c.Level), c.Name, c.Detail)
		if c.Fix != "" {
			t.Add(" ", " ", "-> "+c.Fix)
		}
	}
	return t.Flush(k.Out)
}

// checkFilter says whether filter expressions are built in.
func checkFilter() program.Check {
	if !filter.Available {
		return program.Check{
			Name: "filter", Level: program.Warn, Detail: "no filter expressions (attach --watch, radar packets EXPRESSION)",
			Fix: "build radar with cgo and libpcap-dev, without -tags nopcap",
		}
	}
	return program.Check{Name: "filter", Level: program.OK, Detail: "expressions by " + filter.Library()}
}
