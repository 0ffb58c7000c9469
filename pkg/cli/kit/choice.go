// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Choice is a flag whose values are a list.
type Choice struct {
	Value string
	what  string
	of    []string
}

// NewChoice returns one with its default; what is the word for messages: "group".
func NewChoice(value, what string, of ...string) Choice {
	return Choice{Value: value, what: what, of: of}
}

func (c *Choice) String() string { return c.Value }

// Type names the value in help texts.
func (c *Choice) Type() string { return c.what }

// Set checks and sets the value.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return fmt.Errorf("unknown %s %q: use %s", c.what, s, strings.Join(c.of, ", "))
	}
	c.Value = s
	return nil
}

// Add makes c the flag --name of cmd, with completion.
func (c *Choice) Add(cmd *cobra.Command, name, help string) {
	cmd.Flags().Var(c, name, help+": "+strings.Join(c.of, ", "))
	CompleteWith(cmd, name, c.of...)
}
