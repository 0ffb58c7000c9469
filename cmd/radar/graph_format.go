// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// graphFormat is the value of --output of commands that can draw: an outputFormat,
// or a language for graphs.
type graphFormat string

const (
	formatMermaid graphFormat = "mermaid"
	formatDOT     graphFormat = "dot"
)

func (f *graphFormat) String() string { return string(*f) }

// Type names the value in help texts.
func (f *graphFormat) Type() string { return "format" }

// Set checks and sets the format.
func (f *graphFormat) Set(s string) error {
	switch v := graphFormat(s); v {
	case formatMermaid, formatDOT, graphFormat(formatTable), graphFormat(formatWide), graphFormat(formatJSON):
		*f = v
		return nil
	}
	return fmt.Errorf("unknown format %q: use table, wide, json, mermaid or dot", s)
}

// register gives the command an --output of its own, in place of the one that all
// commands share.
func (f *graphFormat) register(cmd *cobra.Command) {
	cmd.Flags().VarP(f, "output", "o", "output format: table, wide, json, mermaid or dot")
	completeWith(cmd, "output", string(formatTable), string(formatWide), string(formatJSON), string(formatMermaid), string(formatDOT))
}
