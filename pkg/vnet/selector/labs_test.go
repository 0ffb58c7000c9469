// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	scenarios "github.com/vnetradar/radar/lab/scenarios"
	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/lab"
)

// The hashes were computed by Kathará 3.8.3's own generate_urlsafe_hash.
func TestHashOf(t *testing.T) {
	for name, want := range map[string]string{
		"/srv/labs/chain": "AfCBGGoMtXVPef14hahRw",
		"ecmp":            "saIV602yKmuod9UAleKFw",
		"My Lab-1":        "4iOqmOsEHXwjgi7l80OTLg",
		"/srv/été/lab":    "bJaindpFoacV0mLaWP46ug",
		"0":               "z80ghJXVZe9m595Ydk2g",
	} {
		if got := hashOf(name); got != want {
			t.Errorf("hashOf(%q) = %s, want %s", name, got, want)
		}
	}
}

// labFolder makes a folder with that lab.conf.
func labFolder(t *testing.T, conf string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, confFile), []byte(conf), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestKatharaHash(t *testing.T) {
	plain := labFolder(t, "r1[0]=\"A\"\n")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(plain, link); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		plain: hashOf(plain),
		link:  hashOf(plain),
		labFolder(t, "LAB_DESCRIPTION=x\nLAB_NAME=\"ecmp\"\r\nr1[0]=A\n"): hashOf("ecmp"),
		labFolder(t, "# LAB_NAME=no\nLAB_NAME=My 'Lab-1' \n"):             hashOf("My Lab-1"),
	} {
		if got, err := katharaHash(dir); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", dir, got, err, want)
		}
	}
}

// machine starts a container as Kathará does.
func machine(d *dockertest.Engine, name, hash, user string) *dockertest.Container {
	return d.Run(name+"_"+hash+"_"+user, machineFlags(name, hash, user)...)
}

func machineFlags(name, hash, user string) []string {
	return []string{"--network", "none", "--label", "app=kathara", "--label", "name=" + name,
		"--label", "lab_hash=" + hash, "--label", "user=" + user}
}

func TestKathara(t *testing.T) {
	d := dockertest.New(t)
	unique := nstest.Unique() // machines of other labs may run
	h1, r1 := "h1"+unique, "r1"+unique
	dir := labFolder(t, "LAB_NAME="+unique+"\n"+r1+"[0]=A\n")
	one, two := hashOf(unique), "two"+unique
	h1One, r1One, r1Two := machine(d, h1, one, "ann"), machine(d, r1, one, "ann"), machine(d, r1, two, "bob")

	// One that does not run is no choice, unless it is the only one.
	d.Create("old", machineFlags(h1, "old"+unique, "ann")...)
	d.Create("off", machineFlags("off"+unique, one, "ann")...)

	t.Run("named", func(t *testing.T) {
		refused(t, "kathara:off"+unique, d.Name("off")+" does not run")
		resolve(t, "kathara:"+h1, "x=kathara:"+two+"/"+r1).want(t, map[string]int{
			h1 + " kathara:" + h1:         h1One.PID(),
			"x kathara:" + two + "/" + r1: r1Two.PID(),
		})
		refused(t, "kathara:"+r1, "kathara:"+one+"/"+r1+" (of user ann)", "kathara:"+two+"/"+r1+" (of user bob)")
		refused(t, "kathara:no"+unique, "no such machine", "kathara:"+h1)
	})
	all := map[string]int{
		h1 + " kathara:" + one + "/" + h1: h1One.PID(),
		r1 + " kathara:" + one + "/" + r1: r1One.PID(),
	}
	for _, arg := range []string{dir, unique, one} {
		selector, err := LabSelector(t.Context(), arg)
		if want := "kathara:" + one + "/*"; err != nil || selector != want {
			t.Fatalf("lab %s: %s, %v; want %s", arg, selector, err, want)
		}
		resolve(t, selector).want(t, all)
	}
	nstest.WaitFor(t, "the lab here, "+filepath.Base(dir), func() bool { // an engine that is not quick enough is not waited for
		return LabHere(t.Context(), dir) == filepath.Base(dir)
	})
	// The second of two machines of one name gets its container's.
	all[r1Two.Name+" kathara:"+two+"/"+r1] = r1Two.PID()
	resolve(t, "kathara:"+one+"/*", "kathara:"+two+"/*").want(t, all)
	// One lab, started by two users: their machines differ by container only.
	machine(d, h1, one, "eve")
	refused(t, "kathara:"+one+"/"+h1, "docker:"+h1One.Name+" (of user ann)", "(of user eve)")
}

// A lab of radar's own is found by name and by folder; its machines have the names
// that the lab gives them.
func TestLab(t *testing.T) {
	need.AsRoot(t)
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	chain, err := scenarios.Open("chain")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "chain")
	if err := chain.Export(dir, map[string]string{"N": "1"}); err != nil {
		t.Fatal(err)
	}
	scenario, err := lab.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	topology, err := scenario.Topology(nil)
	if err != nil {
		t.Fatal(err)
	}
	name := nstest.Unique()
	if _, err := LabSelector(t.Context(), dir); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "«lab up»") {
		t.Errorf("before it runs: %v", err)
	}
	l, err := lab.Up(t.Context(), topology, lab.Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	}()
	for _, arg := range []string{dir, name} {
		selector, err := LabSelector(t.Context(), arg)
		if err != nil || selector != "lab:"+name {
			t.Fatalf("lab %s: %q, %v", arg, selector, err)
		}
		var got []string
		for _, n := range resolve(t, selector).Nodes {
			got = append(got, n.Name+" "+n.Spec)
			if want := l.Node(n.Name); want == nil || want.Inum != n.Inum {
				t.Errorf("node %+v, want %+v", n, want)
			}
		}
		slices.Sort(got)
		if want := fmt.Sprintf("[h1 netns:%[1]s-h1 h2 netns:%[1]s-h2 r1 netns:%[1]s-r1]", name); fmt.Sprint(got) != want {
			t.Errorf("lab %s: %v, want %s", arg, got, want)
		}
	}
	if got := LabHere(t.Context(), dir); got != name {
		t.Errorf("the lab here is %q, want %q", got, name)
	}
	refused(t, "lab:no"+name, "no such lab runs")
	if _, err := LabSelector(t.Context(), t.TempDir()); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), name) {
		t.Errorf("a folder that is no lab: %v; want the labs that run", err)
	}
}
