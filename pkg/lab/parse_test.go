// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file and says how they differ.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read golden file (make it with: go test -update): %v", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestParseGolden(t *testing.T) {
	for _, name := range []string{"mixed", "pair"} {
		t.Run(name, func(t *testing.T) {
			topo, err := Parse(os.DirFS(filepath.Join("testdata", name)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(topo, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", name+".golden"), append(got, '\n'))
		})
	}
}

func parseText(conf string) (*Topology, error) {
	return Parse(fstest.MapFS{"lab.conf": &fstest.MapFile{Data: []byte(conf)}})
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct{ name, conf, want string }{
		{"empty", "", `lab.conf: no machine: add lines such as r1[0]="A"`},
		{"only comments", "# x\n\n", `lab.conf: no machine: add lines such as r1[0]="A"`},
		{"no bracket", "r1=A\n", `lab.conf:1: "r1=A": expected MACHINE[NUMBER]="LINK" or MACHINE[OPTION]="VALUE"`},
		{"open bracket", "r1[0=A\n", `lab.conf:1: missing ']' after r1[`},
		{"no equals", "r1[0]\n", `lab.conf:1: expected '=' right after r1[0]`},
		{"blank before equals", "r1[0] =A\n", `lab.conf:1: expected '=' right after r1[0]`},
		{"machine name", "R1[0]=A\n", `lab.conf:1: machine name "R1": use 1 to 30 of a-z, 0-9 and '_'`},
		{"long machine name", strings.Repeat("a", 31) + "[0]=A\n",
			`lab.conf:1: machine name "` + strings.Repeat("a", 31) + `": use 1 to 30 of a-z, 0-9 and '_'`},
		{"reserved machine name", "shared[0]=A\n", `lab.conf:1: machine name "shared" is reserved`},
		{"empty argument", "r1[]=A\n", `lab.conf:1: r1[]: neither an interface number nor the name of an option`},
		{"odd argument", "r1[a-b]=A\n", `lab.conf:1: r1[a-b]: neither an interface number nor the name of an option`},
		{"odd number", "r1[0x]=A\n", `lab.conf:1: r1[0x]: the interface number is no plain number`},
		{"leading zero", "r1[00]=A\n", `lab.conf:1: r1[00]: the interface number is no plain number`},
		{"huge number", "r1[99999999999999999999]=A\n", `lab.conf:1: r1[99999999999999999999]: the interface number is no plain number`},
		{"unclosed quote", "r1[0]=\"A\n", `lab.conf:1: r1[0]: missing closing "`},
		{"mixed quotes", "r1[0]=\"A'\n", `lab.conf:1: r1[0]: missing closing "`},
		{"quote in value", "r1[0]=A\"B\n", `lab.conf:1: r1[0]: a value cannot contain quotes`},
		{"text after value", "r1[0]=\"A\" x\n", `lab.conf:1: r1[0]: unexpected "x" after the value`},
		{"comment too close", "r1[0]=\"A\"#x\n", `lab.conf:1: r1[0]: unexpected "#x" after the value`},
		{"empty value", "r1[0]=\"\"\n", `lab.conf:1: r1[0]: the value is empty`},
		{"link name", "r1[0]=\"A-1\"\n", `lab.conf:1: r1[0]: link name "A-1": use letters, digits and '_'`},
		{"no MAC", "r1[0]=\"A/\"\n", `lab.conf:1: r1[0]: "" is no MAC address: write it as 02:00:00:00:00:01`},
		{"short MAC", "r1[0]=\"A/02:00\"\n", `lab.conf:1: r1[0]: "02:00" is no MAC address: write it as 02:00:00:00:00:01`},
		{"multicast MAC", "r1[0]=\"A/01:00:00:00:00:01\"\n", `lab.conf:1: r1[0]: "01:00:00:00:00:01" is a multicast address: an interface needs a unicast one`},
		{"zero MAC", "r1[0]=\"A/00:00:00:00:00:00\"\n", `lab.conf:1: r1[0]: an interface cannot have the MAC address 00:00:00:00:00:00`},
		{"same interface", "r1[0]=A\n\nr1[0]=B\n", `lab.conf:3: r1[0] was given before, in line 1`},
		{"same link", "r1[0]=A\nr1[1]=A\n", `lab.conf:2: r1[1]: r1 is on link "A" already, with eth0 (line 1)`},
		{"gap", "r1[0]=A\nr1[3]=B\nr1[2]=C\n", `lab.conf:3: r1 has eth2 but no eth1: number the interfaces from 0 without gaps`},
		{"no eth0", "r1[1]=A\n", `lab.conf:1: r1 has eth1 but no eth0: number the interfaces from 0 without gaps`},
		{"control character", "r1[0]=A\x00\n", `lab.conf:1: unexpected character U+0000`},
		{"not UTF-8", "r1[0]=\xff\n", `lab.conf:1: the line is not UTF-8`},
		{"unknown key", "LAB_NAM=x\n", `lab.conf:1: unknown key "LAB_NAM": use LAB_NAME, LAB_DESCRIPTION, LAB_VERSION, LAB_AUTHOR, LAB_EMAIL or LAB_WEB`},
		{"key alone", "LAB_NAME\n", `lab.conf:1: "LAB_NAME": expected LAB_NAME="..."`},
		{"ipv6", "r1[ipv6]=maybe\n", `lab.conf:1: r1[ipv6]: "maybe" is neither true nor false`},
		{"sysctl elsewhere", "r1[sysctl]=kernel.panic=1\n", `lab.conf:1: r1[sysctl]: "kernel.panic=1": expected net.NAME=VALUE`},
		{"sysctl path", "r1[sysctl]=net.ipv4/../../kernel/panic=1\n", `lab.conf:1: r1[sysctl]: "net.ipv4/../../kernel/panic=1": expected net.NAME=VALUE`},
		{"sysctl dots", "r1[sysctl]=net...kernel.panic=1\n", `lab.conf:1: r1[sysctl]: "net...kernel.panic=1": expected net.NAME=VALUE`},
		{"sysctl without value", "r1[sysctl]=net.ipv4.ip_forward\n", `lab.conf:1: r1[sysctl]: "net.ipv4.ip_forward": expected net.NAME=VALUE`},
		{"env", "r1[env]=X\n", `lab.conf:1: r1[env]: "X": expected NAME=VALUE`},
		{"two errors", "r1[0]=A\nr1=B\nr2[0]=\n", "lab.conf:2: \"r1=B\": expected MACHINE[NUMBER]=\"LINK\" or MACHINE[OPTION]=\"VALUE\"\n" +
			"lab.conf:3: r2[0]: the value is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topo, err := parseText(tc.conf)
			if err == nil || topo != nil {
				t.Fatalf("Parse = %v, %v; want an error and no topology", topo, err)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseErrorType(t *testing.T) {
	_, err := parseText("r1[0]=A\nr1[0]=B\n")
	perr, ok := errors.AsType[*ParseError](err)
	if !ok || perr.File != "lab.conf" || perr.Line != 2 {
		t.Errorf("error %#v: want a *ParseError of lab.conf:2", err)
	}
}

func TestParseStopsAfterManyErrors(t *testing.T) {
	_, err := parseText(strings.Repeat("x\n", 1000))
	if n := strings.Count(err.Error(), "\n") + 1; n != maxErrors {
		t.Errorf("%d errors reported, want %d", n, maxErrors)
	}
}

func TestParseNeedsConf(t *testing.T) {
	if _, err := Parse(fstest.MapFS{}); !errors.Is(err, errNoConf) {
		t.Errorf("empty folder: %v, want %v", err, errNoConf)
	}
}

func TestParseRefusesHugeFiles(t *testing.T) {
	_, err := parseText(strings.Repeat("#", maxFile+1))
	if err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("file of %d bytes: %v", maxFile+1, err)
	}
}

func TestCleanName(t *testing.T) {
	for in, want := range map[string]string{
		"chain": "chain", "Two routers": "Two_routers", " -x": "x", "": "", "äöü": "", "a/../b": "a_.._b",
		strings.Repeat("long", 20): strings.Repeat("long", 8),
	} {
		got := cleanName(in)
		if got != want {
			t.Errorf("cleanName(%q) = %q, want %q", in, got, want)
		}
		if got != "" && CheckName(got) != nil {
			t.Errorf("cleanName(%q) = %q, which is no name", in, got)
		}
	}
}
