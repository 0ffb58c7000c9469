// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"

	"github.com/spf13/cobra"
)

// GraphFormat is the value of --output of commands that can draw: a Format,
// or a language for graphs.
type GraphFormat string

const (
	FormatMermaid GraphFormat = "mermaid"
	FormatDOT     GraphFormat = "dot"
)

func (f *GraphFormat) String() string { return string(*f) }

// Type names the value in help texts.
func (f *GraphFormat) Type() string { return "format" }

// Set checks and sets the format.
func (f *GraphFormat) Set(s string) error {
	switch v := GraphFormat(s); v {
	case FormatMermaid, FormatDOT, GraphFormat(FormatTable), GraphFormat(FormatWide), GraphFormat(FormatJSON):
		*f = v
		return nil
	}
	return fmt.Errorf("unknown format %q: use table, wide, json, mermaid or dot", s)
}

// Register gives the command an --output of its own, in place of the one that all
// commands share.
func (f *GraphFormat) Register(cmd *cobra.Command) {
	cmd.Flags().VarP(f, "output", "o", "output format: table, wide, json, mermaid or dot")
	CompleteWith(cmd, "output", string(FormatTable), string(FormatWide), string(FormatJSON), string(FormatMermaid), string(FormatDOT))
}
