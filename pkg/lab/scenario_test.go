// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func mapFS(files map[string]string) fs.FS {
	m := make(fstest.MapFS)
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const twoParams = `[{"name":"N","default":2,"min":0,"max":4,"help":"x"},{"name":"RATE","default":10,"min":1,"max":99,"help":"y"}]`

func TestScenarioRender(t *testing.T) {
	s, err := NewScenario("My folder", "here", mapFS(map[string]string{
		"params.json":       twoParams,
		"lab.conf.tmpl":     "h[0]=\"A\"\n{{range $i := seq 1 .N}}r{{$i}}[0]=\"A\"\n{{end}}",
		"r@N.startup.tmpl":  "echo {{.I}} of {{.N}} at {{add .RATE (sub .I 1)}}\n",
		"h.startup":         "echo {{plain}}\n",
		"README.md":         "not part of the lab",
		"shared.startup":    "true\r\n",
		".hidden.startup":   "false\n",
		"r@RATE.note.other": "x",
	}))
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.render(map[string]string{"N": "3"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"lab.conf":       "h[0]=\"A\"\nr1[0]=\"A\"\nr2[0]=\"A\"\nr3[0]=\"A\"\n",
		"r1.startup":     "echo 1 of 3 at 10\n",
		"r2.startup":     "echo 2 of 3 at 11\n",
		"r3.startup":     "echo 3 of 3 at 12\n",
		"h.startup":      "echo {{plain}}\n",
		"shared.startup": "true\n",
	}
	if diff := cmp.Diff(want, f.files); diff != "" {
		t.Errorf("rendered (-want +got):\n%s", diff)
	}
	topo, err := s.Topology(map[string]string{"N": "0"})
	if err != nil {
		t.Fatal(err)
	}
	if topo.Name != "My_folder" || topo.Source != "here" || len(topo.Machines) != 1 || len(topo.Warnings) > 0 {
		t.Errorf("topology with N=0: %+v", topo)
	}
	dir := t.TempDir()
	if err := s.Export(dir, map[string]string{"N": "3"}); err != nil {
		t.Fatal(err)
	}
	plain, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(plain.folder.files))); diff != "" {
		t.Errorf("exported files (-want +got):\n%s", diff)
	}
}

func TestScenarioParamErrors(t *testing.T) {
	params, err := NewScenario("x", "here", mapFS(map[string]string{"params.json": twoParams, "lab.conf.tmpl": "r1[0]=A\n"}))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := NewScenario("x", "here", mapFS(map[string]string{"lab.conf": "r1[0]=A\n"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		s           *Scenario
		name, value string
		want        string
	}{
		{params, "N", "5", "parameter N=5: use a whole number from 0 to 4"},
		{params, "N", "-1", "parameter N=-1: use a whole number from 0 to 4"},
		{params, "N", "x", "parameter N=x: use a whole number from 0 to 4"},
		{params, "M", "1", "unknown parameter M: here has N, RATE"},
		{plain, "N", "1", "parameter N: here has no parameters"},
	} {
		_, err := tc.s.Topology(map[string]string{tc.name: tc.value})
		if _, ok := errors.AsType[*ParamError](err); !ok || err.Error() != tc.want {
			t.Errorf("Topology with %s=%s: %v (%T), want a *ParamError %q", tc.name, tc.value, err, err, tc.want)
		}
		if err := tc.s.Export(filepath.Join(t.TempDir(), "x"), map[string]string{tc.name: tc.value}); err == nil {
			t.Errorf("Export with %s=%s: no error", tc.name, tc.value)
		}
	}
}

func TestScenarioErrors(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no lab.conf", map[string]string{"params.json": twoParams}, "here: no lab.conf"},
		{"no JSON", map[string]string{"params.json": "{", "lab.conf": ""}, "params.json: read parameters:"},
		{"unknown field", map[string]string{"params.json": `[{"nam":"N"}]`, "lab.conf": ""}, `unknown field "nam"`},
		{"name", map[string]string{"params.json": `[{"name":"a-b"}]`, "lab.conf": ""}, `parameter name "a-b"`},
		{"name I", map[string]string{"params.json": `[{"name":"I"}]`, "lab.conf": ""}, `parameter name "I"`},
		{"default", map[string]string{"params.json": `[{"name":"N","default":9,"max":4}]`, "lab.conf": ""}, "default 9 is not within 0 to 4"},
		{"twice", map[string]string{"params.json": `[{"name":"N"},{"name":"N"}]`, "lab.conf": ""}, "parameter N is given twice"},
		{"bad template", map[string]string{"params.json": twoParams, "lab.conf.tmpl": "{{"}, "render lab.conf.tmpl:"},
		{"unknown value", map[string]string{"params.json": twoParams, "lab.conf.tmpl": "{{.M}}"}, `no entry for key "M"`},
		{"file twice", map[string]string{"params.json": twoParams, "lab.conf.tmpl": "r1[0]=A\n", "r@N.startup.tmpl": "", "r1.startup.tmpl": ""}, "r1.startup is there twice"},
		{"plain file twice", map[string]string{"params.json": twoParams, "lab.conf.tmpl": "r1[0]=A\n", "r@N.startup.tmpl": "", "r1.startup": ""}, "r1.startup is there twice"},
		{"bad lab.conf", map[string]string{"params.json": twoParams, "lab.conf.tmpl": "r{{.N}}=A"}, `lab.conf:1: "r2=A"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := NewScenario("x", "here", mapFS(tc.files))
			if err == nil {
				_, err = s.Topology(nil)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestOpenDir(t *testing.T) {
	s, err := OpenDir("testdata/pair")
	if err != nil {
		t.Fatal(err)
	}
	topo, err := s.Topology(nil)
	if err != nil {
		t.Fatal(err)
	}
	if topo.Name != "pair" || !filepath.IsAbs(topo.Source) || filepath.Base(topo.Source) != "pair" {
		t.Errorf("name %q, source %q: want pair and its absolute path", topo.Name, topo.Source)
	}
	// Folders below the top are kept when a plain folder is exported.
	mixed, err := OpenDir("testdata/mixed")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := mixed.Export(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "c", "motd")); err != nil {
		t.Error(err)
	}
	if _, err := OpenDir("testdata/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenDir of no folder: %v", err)
	}
}

// TestTextParams: texts are checked against their pattern before they become part
// of scripts.
func TestTextParams(t *testing.T) {
	params := `[{"name":"DELAY","text":"constant:1ms","pattern":"[a-z]+:[0-9a-z.,]+","help":"x"},{"name":"N","default":1,"min":1,"max":2,"help":"y"}]`
	s, err := NewScenario("x", "here", mapFS(map[string]string{
		"params.json": params, "lab.conf.tmpl": "r1[0]=A\n", "r1.startup.tmpl": "echo {{.DELAY}} {{add .N 1}}\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"": "echo constant:1ms 2\n", "uniform:1ms,5ms": "echo uniform:1ms,5ms 2\n"} {
		set := map[string]string{"DELAY": value}
		if value == "" {
			set = nil
		}
		topo, err := s.Topology(set)
		if err != nil || topo.Machines[0].Scripts[0].Body != want {
			t.Errorf("DELAY=%s: %+v, %v, want the script %q", value, topo, err, want)
		}
	}
	for _, value := range []string{"x; reboot", "a:1ms\nreboot", "", "a:1 b"} {
		_, err := s.Topology(map[string]string{"DELAY": value})
		if _, ok := errors.AsType[*ParamError](err); !ok || !strings.Contains(err.Error(), "use a text such as constant:1ms") {
			t.Errorf("DELAY=%q: %v, want a *ParamError", value, err)
		}
	}
	bad := `[{"name":"D","text":"UP","pattern":"[a-z]+"}]`
	if _, err := NewScenario("x", "here", mapFS(map[string]string{"params.json": bad, "lab.conf": "r1[0]=A\n"})); err == nil ||
		!strings.Contains(err.Error(), `default "UP" does not match pattern "[a-z]+"`) {
		t.Errorf("a default that does not match: %v", err)
	}
}
