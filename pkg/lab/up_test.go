// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// ends lists the interfaces of a namespace beside lo, sorted.
func ends(t *testing.T, netnsName string) map[string]netlink.Link {
	t.Helper()
	c, err := openConn(netnsName)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	links, err := c.nl.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]netlink.Link)
	for _, l := range links {
		if l.Attrs().Name != "lo" {
			found[l.Attrs().Name] = l
		}
		if l.Attrs().Flags&1 == 0 {
			t.Errorf("%s: %s is down", netnsName, l.Attrs().Name)
		}
	}
	return found
}

// carries waits until all interfaces of these namespaces carry, which the kernel reports
// later: before that they drop what they are to send, and bridges what they get.
func carries(t *testing.T, netnsNames ...string) {
	t.Helper()
	for _, name := range netnsNames {
		nstest.WaitFor(t, "carrier in "+name, func() bool {
			for _, l := range ends(t, name) {
				if l.Attrs().OperState != netlink.OperUp {
					return false
				}
			}
			return true
		})
	}
}

func TestUpDirect(t *testing.T) {
	name := newLab(t)
	topo, err := Parse(os.DirFS("testdata/pair"))
	if err != nil {
		t.Fatal(err)
	}
	l := mustUp(t, topo, Options{Name: name})

	if l.LinksNetNS != "" || l.Links[0].Kind != Direct {
		t.Errorf("link %+v, namespace for links %q: want a direct link and none", l.Links[0], l.LinksNetNS)
	}
	a, b := ends(t, name+"-a")["eth0"], ends(t, name+"-b")["eth0"]
	if a == nil || b == nil || a.Type() != "veth" || b.Type() != "veth" {
		t.Fatalf("eth0 of a and b: %v, %v: want veths", a, b)
	}
	if a.Attrs().ParentIndex != b.Attrs().Index || b.Attrs().ParentIndex != a.Attrs().Index {
		t.Errorf("a's peer is %d and b's is %d: want each other (%d, %d)",
			a.Attrs().ParentIndex, b.Attrs().ParentIndex, b.Attrs().Index, a.Attrs().Index)
	}
	carries(t, name+"-a", name+"-b")
	output(t, l, "a", "ping", "-c", "1", "-W", "60", "10.1.0.2")

	got := output(t, l, "a", "sysctl", "-n", "net.ipv4.ip_forward", "net.ipv4.icmp_ratelimit",
		"net.ipv4.conf.all.rp_filter", "net.ipv4.conf.eth0.rp_filter", "net.ipv6.conf.eth0.disable_ipv6")
	if got != "1\n0\n0\n0\n1" {
		t.Errorf("sysctls of a: %q", got)
	}
	if got, want := l.AttachArgs(), []string{"a=netns:" + name + "-a", "b=netns:" + name + "-b"}; !slices.Equal(got, want) {
		t.Errorf("AttachArgs = %v, want %v", got, want)
	}
	listed, err := exec.Command("ip", "netns", "list").Output()
	if err != nil || !strings.Contains(string(listed), name+"-a") || !strings.Contains(string(listed), name+"-b") {
		t.Errorf("ip netns list: %v\n%s", err, listed)
	}

	stored, err := Get(name)
	if err != nil || stored.Status != Running {
		t.Fatalf("Get = %+v, %v: want a running lab", stored, err)
	}
	l.Status = Running
	if diff := cmp.Diff(l, stored); diff != "" {
		t.Errorf("Get (-Up +Get):\n%s", diff)
	}
	for range 2 { // once more is no error
		if err := l.Down(); err != nil {
			t.Fatal(err)
		}
	}
	wantGone(t, name)
	if _, err := Get(name); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Get after Down: %v, want %v", err, ErrNotRunning)
	}
}

func TestUpMixed(t *testing.T) {
	name := newLab(t)
	topo, err := Parse(os.DirFS("testdata/mixed"))
	if err != nil {
		t.Fatal(err)
	}
	var warned []string
	l := mustUp(t, topo, Options{Name: name, Warn: func(w string) { warned = append(warned, w) }})

	var kinds []LinkKind
	for _, link := range l.Links {
		kinds = append(kinds, link.Kind)
	}
	if want := []LinkKind{Bridged, Direct, Stub}; !slices.Equal(kinds, want) {
		t.Errorf("kinds of A, B, C: %v, want %v", kinds, want)
	}
	if !slices.Equal(warned, topo.Warnings) || len(warned) == 0 {
		t.Errorf("warnings %q, want %q", warned, topo.Warnings)
	}
	var hidden []string
	for ifname, link := range ends(t, name+".links") {
		if bridge, ok := link.(*netlink.Bridge); ok && (bridge.MulticastSnooping == nil || *bridge.MulticastSnooping) {
			t.Errorf("bridge %s looks into multicast", ifname)
		}
		hidden = append(hidden, fmt.Sprintf("%s %s %q", ifname, link.Type(), link.Attrs().Alias))
	}
	slices.Sort(hidden)
	want := []string{`br0 bridge "A"`, `p0.0 veth "a:eth0"`, `p0.1 veth "b:eth0"`, `p0.2 veth "c:eth0"`, `p2.0 veth "c:eth1"`}
	if diff := cmp.Diff(want, hidden); diff != "" {
		t.Errorf("namespace for links (-want +got):\n%s", diff)
	}
	carries(t, name+".links", name+"-a", name+"-b", name+"-c") // c's eth1, alone on its link, too
	for _, hop := range [][2]string{{"a", "10.1.0.2"}, {"a", "10.1.0.3"}, {"b", "10.1.0.3"}, {"a", "10.2.0.2"}} {
		output(t, l, hop[0], "ping", "-c", "1", "-W", "60", hop[1])
	}
	eth0 := ends(t, name+"-a")["eth0"].Attrs()
	if eth0.HardwareAddr.String() != "02:00:00:00:00:0a" {
		t.Errorf("MAC address of a: %v", eth0.HardwareAddr)
	}
	if eth0.Alias != "hello-world" {
		t.Errorf("alias of a's eth0 is %q: the exec line has not seen the environment", eth0.Alias)
	}
	for machine, want := range map[string]string{"a": "0\n99\n1", "b": "1\n64\n0", "c": "1\n64\n1"} {
		got := output(t, l, machine, "sysctl", "-n", "net.ipv4.conf.eth0.forwarding", "net.ipv4.ip_default_ttl", "net.ipv6.conf.eth0.disable_ipv6")
		if got != want {
			t.Errorf("sysctls of %s: %q, want %q", machine, got, want)
		}
		if got := output(t, l, machine, "ip", "-br", "address", "show", "lo"); !strings.Contains(got, "127.0.0.99") {
			t.Errorf("%s has not run shared.startup: %s", machine, got)
		}
	}
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, name)
}

// TestUpLeavesHostAlone watches the interfaces of the namespace that Up is
// called in. It makes that a fresh one: on the host others make interfaces too.
func TestUpLeavesHostAlone(t *testing.T) {
	name := newLab(t)
	out, err := startHelper(t, "quiet", []string{"unshare", "--net"}, name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantGone(t, name)
}

func helperQuiet(args []string) error {
	topo, err := Parse(os.DirFS("testdata/mixed"))
	if err != nil {
		return err
	}
	updates, done := make(chan netlink.LinkUpdate, 1000), make(chan struct{})
	defer close(done)
	if err := netlink.LinkSubscribe(updates, done); err != nil {
		return err
	}
	l, err := Up(context.Background(), topo, Options{Name: args[0]})
	if err != nil {
		return err
	}
	if err := l.Down(); err != nil {
		return err
	}
	// One event of our own: what was before it has come in.
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "last"}}); err != nil {
		return err
	}
	u, ok := <-updates
	if !ok {
		return errors.New("no event has come in")
	}
	if name := u.Attrs().Name; name != "last" {
		return fmt.Errorf("the caller's namespace has seen %s", name)
	}
	return nil
}

func TestUpNameTaken(t *testing.T) {
	name := newLab(t)
	topo := pair("true\n").topology(t)
	l := mustUp(t, topo, Options{Name: name})
	_, err := Up(t.Context(), topo, Options{Name: name})
	if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "«lab down "+name) {
		t.Errorf("second Up: %v: want %v and how to take it down", err, ErrExists)
	}

	if err := removeNetNS(name + "-a"); err != nil {
		t.Fatal(err)
	}
	if now, err := Get(name); err != nil || now.Status != Incomplete {
		t.Errorf("status with a namespace gone: %+v, %v: want %s", now, err, Incomplete)
	}
	_, err = Up(t.Context(), topo, Options{Name: name})
	if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), name+"-b") || strings.Contains(err.Error(), name+"-a") {
		t.Errorf("Up over the rest of a lab: %v: want %v and what is left", err, ErrExists)
	}
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, name)
}

// TestUpForeignNamespace has somebody else's namespace of the same name.
func TestUpForeignNamespace(t *testing.T) {
	name := newLab(t)
	if err := prepareNetnsDir(); err != nil {
		t.Fatal(err)
	}
	inum, err := createNetNS(name+"-b", func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer removeNetNS(name + "-b")
	_, err = Up(t.Context(), pair("true\n").topology(t), Options{Name: name})
	if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), name+"-b") {
		t.Errorf("Up = %v: want %v, naming %s-b", err, ErrExists, name)
	}
	if now, err := netnsInum(netnsPath(name + "-b")); err != nil || now != inum {
		t.Errorf("the foreign namespace is %d now (%v), was %d", now, err, inum)
	}
	if _, err := Get(name); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Get = %v: want %v", err, ErrNotRunning)
	}
}

// TestDownForeignNamespace replaces a namespace of a running lab.
func TestDownForeignNamespace(t *testing.T) {
	name := newLab(t)
	l := mustUp(t, pair("true\n").topology(t), Options{Name: name})
	// Held open, the old namespace keeps its inode number.
	old, err := os.Open(netnsPath(name + "-b"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := removeNetNS(name + "-b"); err != nil {
		t.Fatal(err)
	}
	inum, err := createNetNS(name+"-b", func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer removeNetNS(name + "-b")
	sleeper := l.Command(t.Context(), "b", "sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleeper.Wait()
	defer sleeper.Process.Kill()
	nstest.WaitFor(t, "the sleeper to be inside", func() bool { return isInside(sleeper.Process.Pid, map[uint32]bool{inum: true}) })

	if err := l.Down(); err == nil || !strings.Contains(err.Error(), name+"-b is not the one") {
		t.Errorf("Down = %v: want it to say that %s-b is not the lab's", err, name)
	}
	if now, err := netnsInum(netnsPath(name + "-b")); err != nil || now != inum {
		t.Errorf("the other namespace is %d now (%v), was %d", now, err, inum)
	}
	if !alive(sleeper.Process.Pid) {
		t.Error("a process in the other namespace was killed")
	}
	if left, _ := filepath.Glob(netnsPath(name) + "-a"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestUpRefusesBadNames(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	for _, name := range []string{"", "a/b", "..", "-x", strings.Repeat("x", 33)} {
		if _, err := Up(t.Context(), pair("").topology(t), Options{Name: name}); err == nil || !strings.Contains(err.Error(), "lab name") {
			t.Errorf("Up under the name %q: %v", name, err)
		}
	}
}

func TestList(t *testing.T) {
	name := newLab(t)
	if labs, err := List(); err != nil || len(labs) != 0 {
		t.Fatalf("List with no lab: %v, %v", labs, err)
	}
	before := time.Now().Truncate(time.Millisecond)
	mustUp(t, pair("").topology(t), Options{Name: name})
	after := time.Now()
	second := name + "2"
	t.Cleanup(func() { down(t, second) })
	mustUp(t, pair("").topology(t), Options{Name: second})
	labs, err := List()
	if err != nil || len(labs) != 2 || labs[0].Name != name || labs[1].Name != second {
		t.Errorf("List = %v, %v: want %s and %s", labs, err, name, second)
	}
	if made := labs[0].Created; made.Before(before) || made.After(after) {
		t.Errorf("created at %v, want a time from %v to %v", made, before, after)
	}
}
