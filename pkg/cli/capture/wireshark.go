// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
)

const wiresharkLong = `Wireshark and tshark get three things from radar: a plugin that shows every field of INT
and of telemetry reports, a plugin that makes fields of what radar says in its captures
(radar capture, radar packets -w), and an entry for each attached domain among their
interfaces ("radar: lab NAME"), for a live capture of the whole lab.

Without flags this says where Wireshark looks for them, and whether they are there.
--install puts them into your own folders, or those of --folder and --extcap-folder, and
--uninstall takes them from there; "make install" puts them into everyone's. Where there
are two, Wireshark takes everyone's. A file of that name that is not radar's stays.

Wireshark 4.0 looks for capture programs in everyone's folder alone, and in the one that
the variable WIRESHARK_EXTCAP_DIR names.

docs/wireshark.md is about captures, docs/int/wireshark.md about INT.`

const wiresharkExample = `  radar wireshark --install
  tshark -r trace.pcap -Y 'int.hop_latency > 100000' -T fields -e frame.number -e int.node_id
  tshark -i radar-default -Y 'radar.loss.reason == "QDISC_DROP"'`

// wiresharkOptions are the flags of "radar wireshark".
type wiresharkOptions struct {
	install   bool
	uninstall bool
	folder    string
	extcap    string
	program   string
}

// NewWiresharkCmd returns "radar wireshark".
func NewWiresharkCmd(k *kit.Kit) *cobra.Command {
	f := &wiresharkOptions{}
	cmd := &cobra.Command{
		Use:     "wireshark [--install | --uninstall] [--folder DIR] [--extcap-folder DIR]",
		Short:   "radar in Wireshark: what is there, and installing it",
		Long:    wiresharkLong,
		Example: wiresharkExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(k, cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.install, "install", false, "put all of it into your own folders")
	flags.BoolVar(&f.uninstall, "uninstall", false, "take all of it from your own folders")
	flags.StringVar(&f.folder, "folder", "", "with --install and --uninstall: the plugins, and in this folder")
	flags.StringVar(&f.extcap, "extcap-folder", "", "with --install and --uninstall: the capture program, and in this folder")
	flags.StringVar(&f.program, "program", "", "with --install: the radar that Wireshark runs (default this one)")
	cmd.MarkFlagsMutuallyExclusive("install", "uninstall")
	for _, flag := range []string{"folder", "extcap-folder"} {
		if err := cmd.MarkFlagDirname(flag); err != nil {
			cobra.CheckErr(err)
		}
	}
	return cmd
}

func (f *wiresharkOptions) run(k *kit.Kit, cmd *cobra.Command) error {
	if (f.folder != "" || f.extcap != "" || f.program != "") && !f.install && !f.uninstall {
		return fault.Usage.Errorf("--folder, --extcap-folder and --program say what --install does: use both")
	}
	if f.program == "" {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		f.program = program
	}
	r, err := find(cmd.Context(), f.program)
	if err != nil {
		return err
	}
	if !f.install && !f.uninstall {
		return printPlaces(k, r)
	}
	for _, p := range f.chosen(r) {
		said := thisVersion
		if f.install {
			err = p.install(f.program)
		} else {
			said, err = p.remove(f.program)
		}
		if err != nil {
			return err
		}
		if k.Output == kit.FormatJSON {
			err = kit.PrintJSON(k.Out, p)
		} else {
			_, err = fmt.Fprintf(k.Out, "%s %s\n", said, p.File)
		}
		if err != nil {
			return err
		}
		f.remark(k, r, p)
	}
	return nil
}

// chosen are the places to change: the user's own, or those in the folders that are named.
func (f *wiresharkOptions) chosen(r report) (list []place) {
	for _, p := range r.Places {
		if p.For != user {
			continue
		}
		dir := f.folder
		if p.part.extcap {
			dir = f.extcap
		}
		switch {
		case dir != "":
			p.File = filepath.Join(dir, p.part.file)
		case f.folder != "" || f.extcap != "":
			continue
		}
		list = append(list, p)
	}
	return list
}

// remark says why Wireshark may not take what was installed.
func (f *wiresharkOptions) remark(k *kit.Kit, r report, p place) {
	if !f.install {
		return
	}
	for _, other := range r.Places {
		if other.For == everyone && other.What == p.What && other.File != p.File && other.State == otherVersion {
			k.Notef("Wireshark takes everyone's, which is another version: %s", other.File)
		}
	}
	switch {
	case !p.part.extcap || f.extcap != "" || r.ownExtcap:
	case os.Geteuid() == 0: // whose variables Wireshark does not heed
		k.Notef("this Wireshark has no folder for root's own capture programs: make install, or --extcap-folder, puts it where it looks")
	default:
		k.Notef("this Wireshark has no folder for your own capture programs: say where, WIRESHARK_EXTCAP_DIR=%s (or make install)", filepath.Dir(p.File))
	}
}

func printPlaces(k *kit.Kit, r report) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, r)
	}
	t := kit.NewTable(kit.Column{Title: "FOR"}, kit.Column{Title: "WHAT"}, kit.Column{Title: "STATE"}, kit.Column{Title: "FILE"})
	there := false
	for _, p := range r.Places {
		there = there || p.State != notThere
		t.Add(map[string]string{user: "you", everyone: "everyone"}[p.For], p.part.text, p.State, p.File)
	}
	if err := t.Flush(k.Out); err != nil {
		return err
	}
	if !r.Tshark {
		k.Notef("there is no tshark here, which knows the folders: the files are where Wireshark looks on Linux")
	}
	if !there {
		k.Notef("radar wireshark --install puts them there")
	}
	return nil
}
