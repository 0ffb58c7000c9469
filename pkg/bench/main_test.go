// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun is a whole run, too short for good figures: every design sees every
// packet at every hook, and follows it.
func TestRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test attaches BPF programs in network namespaces: run it as root (make test does)")
	}
	file := filepath.Join(t.TempDir(), "result.json")
	args := []string{"-packets", "3000", "-rounds", "2", "-slots", "4096", "-json", file,
		"-object", "again=../bpfobj/tc_x86_bpfel.o", "-watch", "wanted=udp port 4777"}
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var r Report
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	want := []string{"nop", "floor", "radar", "again", "wanted", "hash"}
	for i, res := range r.Results {
		if res.Design != want[i] || len(res.Hooks) != len(hooks) {
			t.Fatalf("result %d is %s with %d hooks", i, res.Design, len(res.Hooks))
		}
		for h, f := range res.Hooks {
			if f.Min < 1 || f.Median < f.Min || f.Max < f.Median {
				t.Errorf("%s, %s: %+v", res.Design, r.Hooks[h], f)
			}
		}
		// A figure says nothing about a design that does not do its work.
		if follows := i >= 2; follows && res.Lost != 0 || !follows && res.Lost != -1 {
			t.Errorf("%s: %d packets lost sight of", res.Design, res.Lost)
		}
		for _, word := range []string{res.Design, "sink ingress", "sum less nop"} {
			if !strings.Contains(stdout.String(), word) {
				t.Errorf("no %q in the table:\n%s", word, stdout.String())
			}
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"extra"}, {"-rounds", "0"}, {"-packets", "-1"}, {"-object", "nofile"}, {"-watch", "a=udp ["}, {"-nosuch"}} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), args, &stdout, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d, %q", args, code, stderr.String())
		}
	}
}

func TestFigure(t *testing.T) {
	if f := figure([]float64{5, 1, 9}); f != (Figure{5, 1, 9}) {
		t.Errorf("%+v", f)
	}
	if f := figure([]float64{4, 2, 1, 9}); f != (Figure{3, 1, 9}) {
		t.Errorf("%+v", f)
	}
}

func TestModelName(t *testing.T) {
	if got := modelName("processor\t: 0\nmodel name\t: A CPU\nflags\t: x\n"); got != "A CPU" {
		t.Error(got)
	}
}
