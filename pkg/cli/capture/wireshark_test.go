// SPDX-License-Identifier: Apache-2.0

package capture

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

// All of it is installed where tshark looks for it, and tshark then shows INT.
func TestWiresharkInstalls(t *testing.T) {
	need.Programs(t, "tshark")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	below := filepath.Join(home, ".local/lib/wireshark")
	plugin, extcap := filepath.Join(below, "plugins", wireshark.INT.Name()), filepath.Join(below, "extcap/radar")
	files := []string{plugin, filepath.Join(below, "plugins", wireshark.Packets.Name()), extcap}
	states := func() map[string]string {
		stdout, _, code := clitest.Radar(t, "wireshark", "-o", "json")
		var r report
		if err := json.Unmarshal([]byte(stdout), &r); code != kit.ExitOK || err != nil || !r.Tshark || len(r.Places) != 6 {
			t.Fatalf("code %d, %+v, %v", code, r, err)
		}
		m := make(map[string]string)
		for _, p := range r.Places {
			m[p.File] = p.State
		}
		return m
	}
	demand := func(want string) {
		t.Helper()
		got := states()
		for _, file := range files {
			if got[file] != want {
				t.Errorf("%s: %q, want %q", file, got[file], want)
			}
		}
	}
	demand(notThere)
	stdout, _, code := clitest.Radar(t, "wireshark", "--install")
	if want := "installed " + strings.Join(files, "\ninstalled ") + "\n"; code != kit.ExitOK || stdout != want {
		t.Errorf("code %d, said %q, want %q", code, stdout, want)
	}
	demand(thisVersion)
	t.Setenv("RADAR_INT_PLUGIN", plugin) // and no other one that may be installed here
	out, err := exec.Command("tshark", "-n", "-r", clitest.ReportsFile(t), "-Y", "int.hops == 3", "-T", "fields", "-e", "int.node_id").Output()
	if want := "0,4,5,6\n"; err != nil || string(out) != want { // the reporting node, and the hops
		t.Errorf("tshark shows %q, %v, want %q", out, err, want)
	}
	for _, file := range files {
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(have, "# older\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	demand(otherVersion)
	clitest.Radar(t, "wireshark", "--install")
	demand(thisVersion)
	if info, err := os.Stat(extcap); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("what Wireshark runs has mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(plugin))
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	clitest.Radar(t, "wireshark", "--uninstall")
	demand(notThere)
}

// Without Wireshark everything goes where it will be looked for, or where --folder and --extcap-folder say.
func TestWiresharkAbsent(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", t.TempDir())
	stdout, stderr, code := clitest.Radar(t, "wireshark")
	for _, want := range []string{"INT (plugin)      not installed  " + filepath.Join(home, ".local/lib/wireshark/plugins/radar_int.lua"), "extcap/radar"} {
		if code != kit.ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("code %d, no %q in %q", code, want, stdout)
		}
	}
	for _, want := range []string{"there is no tshark here", "radar wireshark --install"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %q", want, stderr)
		}
	}
	folder := filepath.Join(t.TempDir(), "a", "b")
	for _, c := range []struct{ flag, want string }{
		{"--folder", "installed " + folder + "/radar_int.lua\ninstalled " + folder + "/radar_packets.lua\n"},
		{"--extcap-folder", "installed " + folder + "/radar\n"},
	} {
		if got := clitest.Must(t, "wireshark", "--install", c.flag, folder, "--program", "/opt/it's/radar"); got != c.want {
			t.Errorf("said %q, want %q", got, c.want)
		}
	}
	if b, err := os.ReadFile(folder + "/radar"); err != nil || !bytes.Contains(b, []byte(`exec '/opt/it'\''s/radar' extcap "$@"`)) {
		t.Errorf("Wireshark runs %q, %v", b, err)
	}
	for _, args := range []string{"--folder " + folder, "--program x", "extra"} {
		if _, _, code := clitest.Radar(t, append([]string{"wireshark"}, strings.Fields(args)...)...); code != kit.ExitUsage {
			t.Errorf("%s: code %d", args, code)
		}
	}
	if _, stderr, code := clitest.Radar(t, "wireshark", "--install", "--folder", "/proc/none"); code != kit.ExitFailure || !strings.Contains(stderr, "/proc/none") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// A file of that name that is somebody else's is neither replaced nor removed.
func TestWiresharkLeavesOthers(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for flag, name := range map[string]string{"--folder": wireshark.INT.Name(), "--extcap-folder": "radar"} {
		folder := t.TempDir()
		file := filepath.Join(folder, name)
		const theirs = "-- of somebody else\n"
		if err := os.WriteFile(file, []byte(theirs), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, what := range []string{"--install", "--uninstall"} {
			_, stderr, code := clitest.Radar(t, "wireshark", what, flag, folder)
			if got, err := os.ReadFile(file); err != nil || string(got) != theirs || code != kit.ExitFailure || !strings.Contains(stderr, file+" is not radar's") {
				t.Errorf("%s: code %d, %q, the file is %q, %v", what, code, stderr, got, err)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		clitest.Must(t, "wireshark", "--install", flag, folder)
		for _, want := range []string{"removed ", "not installed "} {
			if got := clitest.Must(t, "wireshark", "--uninstall", flag, folder); !strings.Contains(got, want+file+"\n") {
				t.Errorf("said %q, want %q", got, want+file)
			}
		}
	}
}
