// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/fault"
)

// UseConfig sets the flags of cmd that neither the command line nor the environment sets from a
// YAML file: a mapping of flags' names, without the dashes, to values, or to lists of them. An
// error names the line. The flags in but are none of the settings.
func UseConfig(cmd *cobra.Command, path string, but ...string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return fault.Usage.Errorf("--config %s: %v", path, yaml.FormatError(err, false, false))
	}
	for _, doc := range file.Docs {
		var settings []*ast.MappingValueNode
		switch body := doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.NullNode:
		case *ast.MappingNode:
			settings = body.Values
		case *ast.MappingValueNode:
			settings = []*ast.MappingValueNode{body}
		default:
			return fault.Usage.Errorf("--config %s: use lines such as \"port: 32766\"", path)
		}
		for _, s := range settings {
			if err := useSetting(cmd, s, but); err != nil {
				return fault.Usage.Errorf("--config %s, line %d: %w", path, s.GetToken().Position.Line, err)
			}
		}
	}
	return nil
}

func useSetting(cmd *cobra.Command, s *ast.MappingValueNode, but []string) error {
	var name string
	if err := yaml.NodeToValue(s.Key, &name); err != nil {
		return err
	}
	f := cmd.LocalNonPersistentFlags().Lookup(name)
	if f == nil || name == "config" || name == "help" || slices.Contains(but, name) {
		return fmt.Errorf("no setting %q: settings are named as the flags of %s", name, cmd.CommandPath())
	}
	var value any
	if err := yaml.NodeToValue(s.Value, &value); err != nil {
		return err
	}
	if f.Changed {
		return nil // the command line and the environment win
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var texts []string
	for _, v := range list {
		switch v.(type) {
		case nil, map[string]any, []any:
			return fmt.Errorf("%s: use a value or a list of them", name)
		}
		texts = append(texts, fmt.Sprint(v))
	}
	if err := f.Value.Set(strings.Join(texts, ",")); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.Changed = true
	return nil
}
