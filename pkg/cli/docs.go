// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newDocsCmd writes the reference of the command line from the commands
// themselves: Markdown and man pages. Its output does not depend on when and
// where it runs, so it can be committed and compared.
func newDocsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "docs DIR",
		Short:   "Write the command-line reference to DIR/cli and man pages to DIR/man",
		Example: "  radar docs docs",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeDocs(cmd.Root(), args[0])
		},
	}
}

func writeDocs(root *cobra.Command, dir string) error {
	cli, man := filepath.Join(dir, "cli"), filepath.Join(dir, "man")
	for _, d := range []string{cli, man} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("create folder for the reference: %w", err)
		}
	}
	return eachDocumented(root, func(cmd *cobra.Command) error {
		cmd.DisableAutoGenTag = true
		if err := writeMarkdown(cmd, cli); err != nil {
			return fmt.Errorf("write reference of %q: %w", cmd.CommandPath(), err)
		}
		if err := writeManPage(cmd, man); err != nil {
			return fmt.Errorf("write man page of %q: %w", cmd.CommandPath(), err)
		}
		return nil
	})
}

// eachDocumented calls f for cmd and every command below it that help shows.
func eachDocumented(cmd *cobra.Command, f func(*cobra.Command) error) error {
	if err := f(cmd); err != nil {
		return err
	}
	for _, child := range cmd.Commands() {
		if !child.IsAvailableCommand() || child.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := eachDocumented(child, f); err != nil {
			return err
		}
	}
	return nil
}

func writeMarkdown(cmd *cobra.Command, dir string) error {
	var b bytes.Buffer
	link := func(name string) string { return name }
	if err := doc.GenMarkdownCustom(cmd, &b, link); err != nil {
		return err
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".md"
	return os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)
}

func writeManPage(cmd *cobra.Command, dir string) error {
	var b bytes.Buffer
	// The generator always prints a date; a fixed one that is taken out again
	// keeps the page the same from day to day.
	date := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "radar", Manual: "radar manual"}
	if err := doc.GenMan(cmd, header, &b); err != nil {
		return err
	}
	page := bytes.Replace(b.Bytes(), []byte(date.Format("Jan 2006")), nil, 1)
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	return os.WriteFile(filepath.Join(dir, name), page, 0o644)
}
