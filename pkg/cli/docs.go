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

	"github.com/vnetradar/radar/pkg/fault"
)

// newDocsCmd writes the reference of the command line from the commands themselves: Markdown, which is
// committed and compared (docs/cli), or man pages, which make install makes. Its output does not depend on
// when and where it runs.
func newDocsCmd() *cobra.Command {
	pages := map[string]func(*cobra.Command, string) error{"cli": writeMarkdown, "man": writeManPage}
	return &cobra.Command{
		Use:     "docs cli|man DIR",
		Short:   "Write the command-line reference to DIR, as Markdown (cli) or as man pages",
		Example: "  radar docs cli docs/cli\n  radar docs man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := pages[args[0]]
			if !ok {
				return fault.Usage.Errorf("no kind of page %q: there are cli and man", args[0])
			}
			return writeDocs(cmd.Root(), args[1], write)
		},
	}
}

// writeDocs writes a page for each command into a folder.
func writeDocs(root *cobra.Command, dir string, write func(*cobra.Command, string) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create folder for the reference: %w", err)
	}
	return eachDocumented(root, func(cmd *cobra.Command) error {
		cmd.DisableAutoGenTag = true
		if err := write(cmd, dir); err != nil {
			return fmt.Errorf("write the page of %q: %w", cmd.CommandPath(), err)
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
