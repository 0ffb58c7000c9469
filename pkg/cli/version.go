// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// release is the release that this tree is, or becomes: CHANGELOG.md has its heading.
const release = "0.1.0"

// version is set by the linker where a build is given one (make VERSION=0.1.0).
var version = ""

// releaseTag is the version of the module in a build of a tagged commit, and of "go install ...@v0.1.0". Commits without a tag
// have pseudo-versions (v0.1.1-0.20261128120000-0123456789ab), changed trees end in +dirty.
var releaseTag = regexp.MustCompile(`^v(\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.?\d+)?)$`)

// pseudoCommit finds the commit in a pseudo-version: all that "go install ...@main" knows of it.
var pseudoCommit = regexp.MustCompile(`^v.*[-.]\d{14}-([0-9a-f]{12})$`)

// versionOf is the version of a build: the linker's, else the tag, else the release to come, with -dev.
func versionOf(linked, module string) string {
	if linked != "" {
		return linked
	}
	if m := releaseTag.FindStringSubmatch(module); m != nil {
		return m[1]
	}
	return release + "-dev"
}

// versionInfo is the JSON form of "radar version".
type versionInfo struct {
	Version      string `json:"version"`
	Commit       string `json:"commit,omitempty"`   // whole, or its first 12 digits
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
		Version:      versionOf(version, ""),
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
	v.Version = versionOf(version, info.Main.Version)
	if m := pseudoCommit.FindStringSubmatch(info.Main.Version); m != nil {
		v.Commit = m[1]
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
