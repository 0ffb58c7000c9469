// SPDX-License-Identifier: Apache-2.0

package steer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/steer"
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

func TestMain(m *testing.M) { clitest.Main(m, cli.Run) }

// shape is a topology in one text: drivers, and links.
func shape(t control.Topology) string {
	var words []string
	for _, n := range t.Nodes {
		text := n.Name
		if n.Driver != "" {
			text += ":" + n.Driver
		}
		for port, role := range n.Ports {
			text += " " + port + "=" + string(role)
		}
		words = append(words, text)
	}
	for _, l := range t.Links {
		words = append(words, strings.Join(l, "-"))
	}
	return strings.Join(words, ", ")
}

// A folder's lab.conf says what a lab that does not run will be made of.
func TestLabFolder(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	folder := t.TempDir()
	conf := `LAB_NAME="small"
a[0]=left
r[0]=left
r[1]=mid
s[0]=mid
s[1]=segment
b[0]=segment
c[0]=segment
s[2]=loose
`
	if err := os.WriteFile(filepath.Join(folder, "lab.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := steer.LabTopology(folder, nil)
	want := "a, r:ebpf, s:ebpf eth2=edge, b, c, a/eth0-r/eth0, r/eth1-s/eth0, s/eth1-b/eth0-c/eth0"
	if err != nil || shape(got) != want || got.Nodes[1].Spec != "netns:small-r" {
		t.Errorf("%s, %v; want %s (%+v)", shape(got), err, want, got.Nodes[1])
	}
	if got, err := steer.LabTopology(folder, []string{"r"}); err != nil || !strings.HasPrefix(shape(got), "a, r:ebpf, s, b, c, ") {
		t.Errorf("%s, %v", shape(got), err)
	}
	if _, err := steer.LabTopology(folder, []string{"x"}); err == nil || !strings.Contains(err.Error(), "‹device› x: there is no such node: there is a, r, s, b, c") {
		t.Errorf("%v", err)
	}
}

// A domain of radar's own is a topology, and a device: whether it measures what is asked for is in its status.
func TestAttachedDomain(t *testing.T) {
	w := clitest.NewWorldOf(t, "chain", map[string]string{"N": "2"})
	watch := "udp and dst port 5001"
	w.Radar(0, "attach", "-d", "--watch", watch, "--lab", w.Lab.Name)
	got, err := steer.DomainTopology(w.Domain, nil)
	if want := "h1, h2, r1:ebpf, r2:ebpf, h1/eth0-r1/eth0, h2/eth0-r2/eth1, r1/eth1-r2/eth0"; err != nil || sorted(shape(got)) != sorted(want) {
		t.Errorf("%s, %v", shape(got), err)
	}
	m, err := steer.Open(nstest.Unique())
	if err != nil {
		t.Fatal(err)
	}
	own := control.Topology{Nodes: []control.TopologyNode{{Device: control.Device{Name: "own", Driver: "backpack", Spec: w.Domain}}}}
	if err := m.SetTopology(own); err != nil {
		t.Fatal(err)
	}
	slice := control.Slice{Proto: "udp", Dport: []string{"5001"}}
	if err := m.Add(control.Intent{Name: "a", Mode: control.Backpack, Slice: slice}); err != nil {
		t.Fatal(err)
	}
	if err := m.Add(control.Intent{Name: "a"}); !errors.Is(err, steer.ErrExists) {
		t.Errorf("added twice: %v", err)
	}
	nstest.Cleanup(t, func() { _ = m.Stop(t.Context(), true) })
	s, err := m.Start(t.Context())
	if err != nil || !s.Running || s.PID == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	state := func(want control.DeviceState, text string) func() bool {
		return func() bool {
			list, err := m.Devices()
			return err == nil && len(list) == 1 && list[0].State == want && strings.Contains(list[0].Error, text)
		}
	}
	nstest.WaitFor(t, "the domain that measures it", state(control.Ready, ""))
	if err := m.Put(control.Intent{Name: "b", Mode: control.Backpack}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("domain %s measures %q, and that is fixed when it is attached", w.Domain, watch)
	nstest.WaitFor(t, "the domain that does not", state(control.Failed, want))
	if err := m.Remove("b"); err != nil {
		t.Fatal(err)
	}
	nstest.WaitFor(t, "the domain again", state(control.Ready, ""))
	events, err := m.Events(0)
	if err != nil || len(events) == 0 || events[len(events)-1].Number != uint64(len(events)) {
		t.Errorf("%+v, %v", events, err)
	}
	if err := m.Forget(); err == nil || !strings.Contains(err.Error(), "end that first") {
		t.Errorf("forgotten while it is managed: %v", err)
	}
	if err := m.Stop(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if s, err := m.Service(); err != nil || s.Running || s.Holds {
		t.Errorf("%+v, %v", s, err)
	}
	if err := m.Forget(); err != nil {
		t.Error(err)
	}
	if w, err := m.Wanted(); err != nil || w.Generation != 0 {
		t.Errorf("%+v, %v", w, err)
	}
}

// sorted is a shape with its words, and the ends of links, in order.
func sorted(text string) string {
	words := strings.Split(text, ", ")
	for i := range words {
		ends := strings.Split(words[i], "-")
		slices.Sort(ends)
		words[i] = strings.Join(ends, "-")
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// A change keeps the age of intents, by which equal ones are in order.
func TestAge(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	m, err := steer.Open("test")
	if err != nil {
		t.Fatal(err)
	}
	names := func() (text string) {
		list, err := m.Intents()
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			text += i.Name
		}
		return text
	}
	if err := m.Apply([]control.Intent{{Name: "c"}, {Name: "a"}, {Name: "b"}}); err != nil || names() != "cab" {
		t.Errorf("%s, %v", names(), err)
	}
	if err := m.Put(control.Intent{Name: "c", Sample: 2}); err != nil || names() != "cab" {
		t.Errorf("%s, %v", names(), err)
	}
	if err := m.Apply([]control.Intent{{Name: "b"}, {Name: "d"}, {Name: "a"}}); err != nil || names() != "abd" {
		t.Errorf("%s, %v", names(), err)
	}
	if err := m.Put(control.Intent{Name: "e", Priority: 1, Expires: time.Now().Add(time.Hour)}); err != nil || names() != "eabd" {
		t.Errorf("%s, %v", names(), err)
	}
	if err := m.Remove("x"); !errors.Is(err, steer.ErrNoIntent) {
		t.Error(err)
	}
	if _, err := m.Start(t.Context()); !errors.Is(err, steer.ErrNoTopology) {
		t.Error(err)
	}
}
