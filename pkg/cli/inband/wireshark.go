// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/p4/wireshark"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
)

const wiresharkLong = `Wireshark and tshark show every field of INT and of telemetry reports with the plugin
that is built into radar. Without flags this says where they look for plugins, and
whether it is there. --install puts it into your own folder, or the one of --folder, and
--uninstall takes it from there; "make install" puts it into everyone's. Where there are
two, Wireshark takes everyone's. A file of that name that is not the plugin stays.

Fields, preferences and examples: docs/int/wireshark.md.`

const wiresharkExample = `  radar int wireshark --install
  tshark -r trace.pcap -Y 'int.hop_latency > 100000' -T fields -e frame.number -e int.node_id`

// wiresharkOptions are the flags of "radar int wireshark".
type wiresharkOptions struct {
	install   bool
	uninstall bool
	folder    string
}

func newWiresharkCmd(k *kit.Kit) *cobra.Command {
	f := &wiresharkOptions{}
	cmd := &cobra.Command{
		Use:     "wireshark [--install | --uninstall] [--folder DIR]",
		Short:   "The Wireshark plugin for INT: where it is, and installing it",
		Long:    wiresharkLong,
		Example: wiresharkExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.folder != "" && !f.install && !f.uninstall {
				return fault.Usage.Errorf("--folder says where --install puts the plugin: use both")
			}
			places, err := pluginPlaces(cmd.Context())
			if err != nil {
				return err
			}
			file := places.Places[0].File
			if f.folder != "" {
				file = filepath.Join(f.folder, wireshark.Name)
			}
			switch {
			case f.install:
				return installPlugin(k, places, file)
			case f.uninstall:
				return uninstallPlugin(k, file)
			}
			return printPlaces(k, places)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.install, "install", false, "put the plugin into your own folder")
	flags.BoolVar(&f.uninstall, "uninstall", false, "take the plugin from your own folder")
	flags.StringVar(&f.folder, "folder", "", "with --install and --uninstall: this folder instead")
	cmd.MarkFlagsMutuallyExclusive("install", "uninstall")
	if err := cmd.MarkFlagDirname("folder"); err != nil {
		cobra.CheckErr(err)
	}
	return cmd
}

// States of a place.
const (
	notThere     = "not installed"
	thisVersion  = "installed"
	otherVersion = "another version"
	otherFile    = "another file"
)

// pluginPlace is a file that Wireshark loads if it is there.
type pluginPlace struct {
	For   string `json:"for"` // user, all
	File  string `json:"file"`
	State string `json:"state"`
}

// pluginReport is the JSON form of "radar int wireshark".
type pluginReport struct {
	Tshark bool          `json:"tshark"` // it is here, and has named the folders
	Places []pluginPlace `json:"places"`
}

// folderLines are those of tshark -G folders that name folders of Lua plugins.
var folderLines = regexp.MustCompile(`(?m)^(Personal|Global) Lua Plugins:\s*(/.+)$`)

// pluginPlaces asks tshark where it and Wireshark look. Where there is none, they will look in ~/.local.
func pluginPlaces(ctx context.Context) (pluginReport, error) {
	var r pluginReport
	folders := make(map[string]string)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "tshark", "-G", "folders").Output(); err == nil {
		r.Tshark = true
		for _, m := range folderLines.FindAllStringSubmatch(string(out), -1) {
			folders[m[1]] = strings.TrimSpace(m[2])
		}
	}
	if folders["Personal"] == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return r, fmt.Errorf("find your folder of Wireshark plugins: %w", err)
		}
		folders["Personal"] = filepath.Join(home, ".local/lib/wireshark/plugins")
	}
	for _, whose := range [][2]string{{"user", "Personal"}, {"all", "Global"}} {
		if folders[whose[1]] == "" {
			continue
		}
		p := pluginPlace{For: whose[0], File: filepath.Join(folders[whose[1]], wireshark.Name)}
		var err error
		if p.State, err = stateOf(p.File); err != nil {
			return r, err
		}
		r.Places = append(r.Places, p)
	}
	return r, nil
}

// stateOf says whether a file is the plugin that is built in.
func stateOf(file string) (string, error) {
	plugin, err := wireshark.Plugin()
	if err != nil {
		return "", err
	}
	have, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return notThere, nil
	case err != nil:
		return "", fmt.Errorf("look at the Wireshark plugin: %w", err)
	case bytes.Equal(have, plugin):
		return thisVersion, nil
	case wireshark.IsPlugin(have):
		return otherVersion, nil
	}
	return otherFile, nil
}

func printPlaces(k *kit.Kit, r pluginReport) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, r)
	}
	t := kit.NewTable(kit.Column{Title: "FOR"}, kit.Column{Title: "PLUGIN"}, kit.Column{Title: "FILE"})
	there := false
	for _, p := range r.Places {
		there = there || p.State != notThere
		t.Add(map[string]string{"user": "you", "all": "everyone"}[p.For], p.State, p.File)
	}
	if err := t.Flush(k.Out); err != nil {
		return err
	}
	if !r.Tshark {
		k.Notef("there is no tshark here, which knows the folders: the file is where Wireshark looks on Linux")
	}
	if !there {
		k.Notef("radar int wireshark --install puts the plugin there")
	}
	return nil
}

// ownState is the state of a file that may be replaced or removed: a file of somebody else may not.
func ownState(file string) (string, error) {
	state, err := stateOf(file)
	if err == nil && state == otherFile {
		err = fmt.Errorf("%s is not radar's plugin: move it away first", file)
	}
	return state, err
}

// uninstallPlugin removes the plugin.
func uninstallPlugin(k *kit.Kit, file string) error {
	state, err := ownState(file)
	if err != nil {
		return err
	}
	said := notThere
	if state != notThere {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("remove the Wireshark plugin: %w", err)
		}
		said = "removed"
	}
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, pluginPlace{For: "user", File: file, State: notThere})
	}
	_, err = fmt.Fprintf(k.Out, "%s %s\n", said, file)
	return err
}

// installPlugin writes the plugin.
func installPlugin(k *kit.Kit, r pluginReport, file string) error {
	plugin, err := wireshark.Plugin()
	if err != nil {
		return err
	}
	if _, err := ownState(file); err != nil {
		return err
	}
	if err := replaceFile(file, plugin); err != nil {
		return fmt.Errorf("install the Wireshark plugin: %w", err)
	}
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, pluginPlace{For: "user", File: file, State: thisVersion})
	}
	if _, err := fmt.Fprintf(k.Out, "installed %s\n", file); err != nil {
		return err
	}
	for _, p := range r.Places {
		if p.For == "all" && p.File != file && p.State == otherVersion {
			k.Notef("Wireshark takes everyone's, which is another version: %s", p.File)
		}
	}
	return nil
}

// replaceFile writes a file that others may read, and that is never there by half.
func replaceFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	// Wireshark loads no file whose name begins with a dot.
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file))
	if err != nil {
		return err
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chmod(0o644), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}
