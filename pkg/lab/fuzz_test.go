// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"
	"testing/fstest"
)

// FuzzParse checks that lab.conf is either refused or gives a topology that can
// be built: names that are safe, interfaces without gaps, every interface on
// one link.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"mixed", "pair"} {
		conf, err := os.ReadFile("testdata/" + name + "/lab.conf")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(conf))
	}
	f.Add("r1[0]=\"A/02:00:00:00:00:01\" # x\nr1[sysctl]=\"net.ipv4.ip_forward=1\"\n")
	f.Add("LAB_NAME=\nr1[1]=A\nr1[0]=B")
	f.Fuzz(func(t *testing.T, conf string) {
		topo, err := Parse(fstest.MapFS{"lab.conf": &fstest.MapFile{Data: []byte(conf)}})
		if (err == nil) != (topo != nil) {
			t.Fatalf("Parse = %v, %v: want either", topo, err)
		}
		if err == nil {
			checkTopology(t, topo)
		}
	})
}

func checkTopology(t *testing.T, topo *Topology) {
	t.Helper()
	if topo.Name != "" && CheckName(topo.Name) != nil {
		t.Errorf("lab name %q", topo.Name)
	}
	if len(topo.Machines) == 0 {
		t.Error("no machine")
	}
	want := make(map[Member]string) // interface -> link
	for _, m := range topo.Machines {
		if !machineRE.MatchString(m.Name) {
			t.Errorf("machine name %q", m.Name)
		}
		for n, itf := range m.Interfaces {
			want[Member{m.Name, ifname(n)}] = itf.Link
		}
		for _, s := range m.Sysctls {
			if !sysctlRE.MatchString(s.Key) {
				t.Errorf("sysctl %q", s.Key)
			}
		}
	}
	for _, link := range topo.Links {
		if link.Kind != kindFor(len(link.Members)) {
			t.Errorf("link %s with %d members is %s", link.Name, len(link.Members), link.Kind)
		}
		for _, m := range link.Members {
			if want[m] != link.Name {
				t.Errorf("%s is on link %s, and on %q by its machine", m, link.Name, want[m])
			}
			delete(want, m)
		}
	}
	if len(want) > 0 {
		t.Errorf("interfaces on no link: %v", want)
	}
}
