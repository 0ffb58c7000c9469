// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/cmd/bench/result"
	"github.com/vnetradar/radar/lab/test/need"
)

// TestRun is a whole run of one benchmark, too short for good figures: every design sees
// every packet at every hook, and follows it; and what was kept is printed again as it was.
func TestRun(t *testing.T) {
	need.AsRoot(t)
	file := filepath.Join(t.TempDir(), "result.json")
	args := []string{"-run", "^hooks$", "-packets", "3000", "-rounds", "2", "-slots", "4096", "-json", file,
		"-object", "again=../../pkg/bpfobj/tc_x86_bpfel.o", "-watch", "wanted=udp port 4777"}
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	r, err := result.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	table := r.Benchmarks[0].Tables[0]
	if got := strings.Join(table.Columns, " "); got != "hook nop floor radar again wanted hash" {
		t.Fatalf("columns: %s", got)
	}
	for _, row := range table.Rows[:len(hooks)] {
		for i, c := range row.Cells {
			if f := c.Figure; len(f.Rounds) != 2 || f.Min < 1 || f.Median < f.Min || f.Max < f.Median {
				t.Errorf("%s, %s: %+v", row.Name, table.Columns[1+i], f)
			}
		}
	}
	// A figure says nothing about a design that does not do its work.
	lost := table.Rows[len(table.Rows)-1]
	for i, c := range lost.Cells {
		if follows := i >= 2; follows && c.Text != "0" || !follows && c.Text != "-" {
			t.Errorf("%s, %s: %s", lost.Name, table.Columns[1+i], c.Text)
		}
	}
	var again bytes.Buffer
	if code := run(context.Background(), []string{"-from", file, "-run", "hooks|targets"}, &again, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if _, figures, _ := strings.Cut(stdout.String(), "hooks: "); !strings.HasSuffix(again.String(), figures) || figures == "" {
		t.Errorf("printed:\n%s\nand from the file:\n%s", stdout.String(), again.String())
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"extra"}, {"-rounds", "0"}, {"-packets", "-1"}, {"-object", "nofile"}, {"-watch", "a=udp ["}, {"-run", "("}, {"-nosuch"}} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), args, &stdout, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d, %q", args, code, stderr.String())
		}
	}
	for _, args := range [][]string{{"-run", "nosuch"}, {"-from", "nosuch.json"}} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), args, &stdout, &stderr); code != 1 || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d, %q", args, code, stderr.String())
		}
	}
}

func TestList(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"-list"}, &stdout, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	seen := make(map[string]bool)
	for _, b := range benchmarks {
		if seen[b.name] || !strings.Contains(stdout.String(), b.name+" ") {
			t.Errorf("%s: twice, or not in the list:\n%s", b.name, stdout.String())
		}
		seen[b.name] = true
	}
}
