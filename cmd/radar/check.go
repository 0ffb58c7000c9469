// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/datapath"
)

// checkReport is the JSON form of "radar check".
type checkReport struct {
	OK     bool             `json:"ok"` // nothing that radar needs is missing
	Checks []datapath.Check `json:"checks"`
}

func newCheckCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say what this kernel and user can and cannot do",
		Long: `Say what this kernel and this user can and cannot do, and what to change.

A line with "fail" names something that radar cannot do without: the exit code
is then 3. A line with "warn" names something that costs speed or detail.`,
		Example: "  sudo radar check\n  radar check -o json | jq '.checks[] | select(.level != \"ok\")'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.check(append(datapath.Checks(), checkFilter()))
		},
	}
}

// check prints the checks, and fails if one of them did.
func (a *app) check(checks []datapath.Check) error {
	report := checkReport{OK: true, Checks: checks}
	for i, c := range checks {
		checks[i].Detail, checks[i].Fix = face.Render(c.Detail), face.Render(c.Fix)
		report.OK = report.OK && c.Level != datapath.Fail
	}
	if err := a.printCheck(report); err != nil {
		return err
	}
	if !report.OK {
		return withCode(exitKernel, fmt.Errorf("this machine or user lacks something that radar needs: see the lines with \"fail\""))
	}
	return nil
}

func (a *app) printCheck(report checkReport) error {
	if a.output == formatJSON {
		return printJSON(a.out, report)
	}
	t := newTable(column{title: "LEVEL"}, column{title: "CHECK"}, column{title: "DETAIL"})
	for _, c := range report.Checks {
		t.add(string(c.Level), c.Name, c.Detail)
		if c.Fix != "" {
			t.add(" ", " ", "-> "+c.Fix)
		}
	}
	return t.flush(a.out)
}
