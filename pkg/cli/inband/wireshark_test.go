// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/p4/wireshark"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// The plugin is installed where tshark looks for it, and tshark then shows INT.
func TestWiresharkInstalls(t *testing.T) {
	need.Programs(t, "tshark")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	file := filepath.Join(home, ".local/lib/wireshark/plugins", wireshark.Name)
	states := func() map[string]string {
		var r pluginReport
		if err := json.Unmarshal([]byte(clitest.Must(t, "int", "wireshark", "-o", "json")), &r); err != nil || !r.Tshark || len(r.Places) != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		m := make(map[string]string)
		for _, p := range r.Places {
			m[p.File] = p.State
		}
		return m
	}
	if got := states()[file]; got != notThere {
		t.Errorf("before: %q", got)
	}
	if got := clitest.Must(t, "int", "wireshark", "--install"); got != "installed "+file+"\n" {
		t.Errorf("said %q", got)
	}
	if got := states()[file]; got != thisVersion {
		t.Errorf("installed: %q", got)
	}
	t.Setenv("RADAR_INT_PLUGIN", file) // and no other one that may be installed here
	out, err := exec.Command("tshark", "-n", "-r", clitest.ReportsFile(t), "-Y", "int.hops == 3", "-T", "fields", "-e", "int.node_id").Output()
	if want := "0,4,5,6\n"; err != nil || string(out) != want { // the reporting node, and the hops
		t.Errorf("tshark shows %q, %v, want %q", out, err, want)
	}
	plugin, err := wireshark.Plugin()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(bytes.Clone(plugin), "-- older\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := states()[file]; got != otherVersion {
		t.Errorf("changed: %q", got)
	}
	clitest.Must(t, "int", "wireshark", "--install")
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, plugin) {
		t.Errorf("%d bytes of %d, %v", len(got), len(plugin), err)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Without Wireshark the plugin goes where it will be looked for, or where --folder says.
func TestWiresharkAbsent(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", t.TempDir())
	stdout, stderr, code := clitest.Radar(t, "int", "wireshark")
	file := filepath.Join(home, ".local/lib/wireshark/plugins/radar_int.lua")
	if code != kit.ExitOK || !strings.Contains(stdout, "you  not installed  "+file) || !strings.Contains(stderr, "there is no tshark here") ||
		!strings.Contains(stderr, "radar int wireshark --install") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
	folder := filepath.Join(t.TempDir(), "a", "b")
	if got, want := clitest.Must(t, "int", "wireshark", "--install", "--folder", folder), "installed "+folder+"/radar_int.lua\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	for _, args := range []string{"--folder " + folder, "extra"} {
		if _, _, code := clitest.Radar(t, append([]string{"int", "wireshark"}, strings.Fields(args)...)...); code != kit.ExitUsage {
			t.Errorf("%s: code %d", args, code)
		}
	}
	if _, stderr, code := clitest.Radar(t, "int", "wireshark", "--install", "--folder", "/proc/none"); code != kit.ExitFailure || !strings.Contains(stderr, "/proc/none") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// A file of that name that is somebody else's is neither replaced nor removed.
func TestWiresharkLeavesOthers(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	folder := t.TempDir()
	file := filepath.Join(folder, wireshark.Name)
	const theirs = "-- a dissector of somebody else\n"
	if err := os.WriteFile(file, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"--install", "--uninstall"} {
		_, stderr, code := clitest.Radar(t, "int", "wireshark", what, "--folder", folder)
		if got, err := os.ReadFile(file); err != nil || string(got) != theirs || code != kit.ExitFailure || !strings.Contains(stderr, file+" is not radar's plugin") {
			t.Errorf("%s: code %d, %q, the file is %q, %v", what, code, stderr, got, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	clitest.Must(t, "int", "wireshark", "--install", "--folder", folder)
	for _, want := range []string{"removed ", "not installed "} {
		if got := clitest.Must(t, "int", "wireshark", "--uninstall", "--folder", folder); got != want+file+"\n" {
			t.Errorf("said %q, want %q", got, want+file)
		}
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
