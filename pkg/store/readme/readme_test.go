// SPDX-License-Identifier: Apache-2.0

package readme_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/readme"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// kept is a recording of so many packets.
func kept(t *testing.T, dir string, packets int) {
	t.Helper()
	w, err := segments.Create(dir, segments.Meta{Host: "h", Epoch: 1}, segments.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &packet.Registry{}
	hop := packet.Hop{Node: g.Node("h1"), In: packet.NoPort, Out: packet.NoPort, InNs: packet.NoTime, OutNs: 0, DequeueNs: packet.NoTime}
	for i := range packets {
		p := &segments.Packet{Source: record.EBPF, Packet: packet.Packet{Pos: uint64(i), T0: 1e18, State: record.Delivered, Segs: 1, LatencyNs: 5, LastNs: 5, Hops: []packet.Hop{hop}}}
		if err := w.Add(p, g); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || w.Stats().LastError != "" {
		t.Fatal(err, w.Stats())
	}
}

// A recording has the file as soon as something is kept, and reads as without it. The user's own stays.
func TestRecording(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	kept(t, dir, 0)
	path := filepath.Join(dir, readme.Name)
	if _, err := os.Stat(path); err == nil {
		t.Error("a recording of nothing has a README")
	}
	kept(t, dir, 3)
	first, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(first), "radar sql -r DIR") {
		t.Fatalf("%v: %s", err, first)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept(t, dir, 4)
	if own, err := os.ReadFile(path); string(own) != "mine" {
		t.Errorf("%v: %s", err, own)
	}
	d, err := segments.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if len(d.Damage()) > 0 {
		t.Errorf("damage: %v", d.Damage())
	}
}

// What it says works, as it stands there.
func TestOthers(t *testing.T) {
	if need.IsCheck(t) {
		t.Skip("needs Python: make test runs it")
	}
	need.Tree(t)
	python := servers.Python(t, "records")
	dir := t.TempDir()
	kept(t, dir, 7)
	text, err := os.ReadFile(filepath.Join(dir, readme.Name))
	if err != nil {
		t.Fatal(err)
	}
	_, pandas, _ := strings.Cut(string(text), "With pandas, in this directory:\n")
	pandas, _, _ = strings.Cut(pandas, "\n`t` is")
	_, sql, _ := strings.Cut(string(text), "duckdb -c \"")
	sql, _, _ = strings.Cut(sql, "\"\n")
	for name, program := range map[string]string{"pandas": strings.ReplaceAll(pandas, "\n    ", "\n"), "duckdb": "import duckdb\nprint(duckdb.sql('''" + sql + "'''))"} {
		cmd := exec.Command(python, "-c", program)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "h1") || !strings.Contains(string(out), "7") {
			t.Errorf("%s: %v\n%s\n%s", name, err, program, out)
		}
	}
}
