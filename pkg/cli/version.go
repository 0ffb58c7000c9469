// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// version is set by the linker to the release; a plain build says "devel".
var version = "devel"

// versionInfo is the JSON form of "radar version".
type versionInfo struct {
	Version      string `json:"version"`
	Commit       string `json:"commit,omitempty"`
	Modified     bool   `json:"modified,omitempty"` // built from a changed tree
	Go           string `json:"go"`
	Platform     string `json:"platform"`
	LayoutVer    int    `json:"layout_version"`   // of pinned maps and state
	RecordFormat int    `json:"record_version"`   // of records in JSON
	Filter       string `json:"filter,omitempty"` // what compiles filter expressions; absent: not built in
}

func newVersionCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  radar version\n  radar version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if k.Output == kit.FormatJSON {
				return kit.PrintJSON(k.Out, v)
			}
			_, err := fmt.Fprintln(k.Out, v.text())
			return err
		},
	}
}

// text is the version in one line.
func (v versionInfo) text() string {
	name := v.Version
	switch {
	case v.Commit != "" && v.Modified:
		name += " (" + v.Commit + ", modified)"
	case v.Commit != "": // a build outside of a repository knows none
		name += " (" + v.Commit + ")"
	}
	expressions := "no filter expressions"
	if v.Filter != "" {
		expressions = "filter expressions by " + v.Filter
	}
	return fmt.Sprintf("radar %s %s %s, layout v%d, records v%d, %s", name, v.Go, v.Platform, v.LayoutVer, v.RecordFormat, expressions)
}

func buildVersion() versionInfo {
	v := versionInfo{
		Version:      version,
		Go:           runtime.Version(),
		Platform:     runtime.GOOS + "/" + runtime.GOARCH,
		LayoutVer:    domain.Version,
		RecordFormat: record.Version,
		Filter:       filter.Library(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
