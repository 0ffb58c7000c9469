// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSharedFiles: machines of a lab read the same files, also those that the program adds, and an
// exported lab has them.
func TestSharedFiles(t *testing.T) {
	for _, params := range []string{"", `[{"name":"N","max":1}]`} {
		files := map[string]string{
			"lab.conf":        "a[0]=\"A\"\nb[0]=\"A\"\n",
			"a.startup":       "cat $LAB_SHARED/own $LAB_SHARED/added\n",
			"b.startup":       "sh $LAB_SHARED/script.sh b\n",
			"shared/own":      "bytes\r\n",
			"shared/.hidden":  "",
			"shared/below/it": "",
			"shared/script.sh": "echo \"$1 $(dirname $0)\"\n" +
				"ls $LAB_SHARED\n",
		}
		if params != "" {
			files[paramsFile] = params
		}
		s, err := NewScenario("x", "here", mapFS(files))
		if err != nil {
			t.Fatal(err)
		}
		s.Share("added", []byte("more\n"))
		topo, err := s.Topology(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(topo.Warnings) > 0 {
			t.Errorf("warnings %q", topo.Warnings)
		}
		dir := filepath.Join(t.TempDir(), "exported")
		if err := s.Export(dir, nil); err != nil {
			t.Fatal(err)
		}
		again, err := OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(topo.Shared, again.folder.shared); diff != "" || len(topo.Shared) != 3 {
			t.Errorf("shared files %q (-built in +exported):\n%s", slices.Sorted(maps.Keys(topo.Shared)), diff)
		}

		name := newLab(t)
		l := mustUp(t, topo, Options{Name: name})
		for machine, want := range map[string]string{"a": "bytes\r\nmore\n", "b": "b " + l.sharedDir() + "\nadded\nown\nscript.sh\n"} {
			log, err := os.ReadFile(l.LogPath(machine))
			if err != nil || !strings.HasSuffix(string(log), want) {
				t.Errorf("%s printed %q, %v: want %q", machine, log, err, want)
			}
		}
		if err := l.Down(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(l.sharedDir()); err == nil {
			t.Errorf("%s is still there", l.sharedDir())
		}
	}
}

func TestSharedNotMounted(t *testing.T) {
	topo, err := Parse(mapFS(map[string]string{"lab.conf": "a[0]=A\n", "a.startup": "cat /shared/x\n", "shared/x": ""}))
	if err != nil {
		t.Fatal(err)
	}
	if len(topo.Warnings) != 1 || !strings.Contains(topo.Warnings[0], "$LAB_SHARED") {
		t.Errorf("warnings %q: want where the files are", topo.Warnings)
	}
}

// TestNeeds: a lab whose program is not there does not begin.
func TestNeeds(t *testing.T) {
	needs := `[{"program":"sh","how":"-"},{"program":"radar-no-such","how":"bring it"}]`
	topo, err := Parse(mapFS(map[string]string{"lab.conf": "a[0]=A\n", "needs.json": needs}))
	if err != nil {
		t.Fatal(err)
	}
	name := newLab(t)
	_, err = Up(t.Context(), topo, Options{Name: name})
	if missing, ok := errors.AsType[*MissingError](err); !ok || missing.Program.Name != "radar-no-such" ||
		err.Error() != name+" needs radar-no-such, which is not in PATH: bring it" {
		t.Errorf("Up: %v", err)
	}
	wantGone(t, name)
	if _, err := Get(name); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Get: %v, want %v", err, ErrNotRunning)
	}
	if _, err := Parse(mapFS(map[string]string{"lab.conf": "a[0]=A\n", "needs.json": "{}"})); err == nil ||
		!strings.HasPrefix(err.Error(), "needs.json: read needs:") {
		t.Errorf("needs that are no list: %v", err)
	}
}
