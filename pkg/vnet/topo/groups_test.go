// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
)

// groupsOf returns what a port takes, as text in order.
func groupsOf(t *testing.T, n *nstest.Net, node, port string) string {
	t.Helper()
	groups, err := specs(t, n, node)[0].Groups()
	if err != nil {
		t.Fatal(err)
	}
	addrs := groups[n.Index(node, port)]
	slices.SortFunc(addrs, netip.Addr.Compare)
	return strings.Trim(fmt.Sprint(addrs), "[]")
}

// A port takes the broadcasts of its own subnets only, with those of a bridge above it.
func TestGroups(t *testing.T) {
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	n.Veth("a", "e1", "b", "e1")
	n.Veth("a", "e2", "b", "e2")
	n.Run("a", "ip", "link", "add", "br0", "type", "bridge")
	n.Run("a", "ip", "link", "set", "e2", "master", "br0")
	n.Up("a", "br0")
	n.Run("a", "ip", "addr", "add", "10.0.0.1/24", "broadcast", "+", "dev", "e0")
	n.Run("a", "ip", "addr", "add", "10.0.1.1/24", "broadcast", "10.0.1.77", "dev", "e1")
	n.Run("a", "ip", "addr", "add", "10.0.2.1/24", "broadcast", "+", "dev", "br0")
	for port, want := range map[string]string{
		"e0": "10.0.0.255", "e1": "10.0.1.77", "e2": "10.0.2.255", "br0": "10.0.2.255",
	} {
		got := groupsOf(t, n, "a", port)
		// 224.0.0.1 is joined by all, 224.0.0.106 by bridges, and kernels before 5.14 have
		// the subnet's first address as well.
		fields := slices.DeleteFunc(strings.Fields(got), func(f string) bool {
			return strings.HasPrefix(f, "224.0.0.") || f == "255.255.255.255" || strings.HasSuffix(f, ".0") || f == "10.0.1.255"
		})
		if strings.Join(fields, " ") != want || !strings.Contains(got, "255.255.255.255") {
			t.Errorf("%s takes %s, want %s", port, got, want)
		}
	}
}

// The kernel picks the routes, of which a router can have a million.
func TestRoutesAreFiltered(t *testing.T) {
	n := nstest.New(t, "a")
	n.Veth("a", "e0", "a", "e1")
	n.Run("a", "ip", "addr", "add", "10.0.0.1/24", "broadcast", "+", "dev", "e0")
	for i := range 20 {
		n.Run("a", "ip", "route", "add", fmt.Sprintf("10.1.%d.0/24", i), "via", "10.0.0.2")
	}
	err := specs(t, n, "a")[0].Do(func() error {
		sock, err := openRoutes(netns.None())
		if err != nil {
			return err
		}
		defer sock.Close()
		all, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}
		sent, err := routeMessages(sock, unix.AF_INET, unix.RTN_BROADCAST)
		if err != nil {
			return err
		}
		if len(all) < 20 || len(sent) == 0 || len(sent) > 4 {
			t.Errorf("the kernel sent %d of %d routes", len(sent), len(all))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Lists that changes interrupt are asked for again.
func TestInterruptedDumps(t *testing.T) {
	n := nstest.New(t, "a")
	var batch strings.Builder
	for i := range 200 {
		fmt.Fprintf(&batch, "link add d%d type bridge\naddr add 10.%d.0.1/16 dev d%d\nlink set d%d up\n", i, i, i, i)
	}
	n.Run("a", "sh", "-c", "echo '"+batch.String()+"' | ip -batch -")
	// Links and addresses that come and go in between, all the time.
	change := exec.Command("ip", "netns", "exec", n.Name("a"), "sh", "-c",
		"while :; do ip link add x type bridge; ip addr add 10.250.0.1/16 dev x; ip link del x; done")
	change.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	change.Stderr = os.Stderr
	if err := change.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(-change.Process.Pid, unix.SIGKILL)
		_ = change.Wait()
	}()
	node := specs(t, n, "a")[0]
	before := host.Interrupted()
	// The changes may begin late.
	for i, end := 0, time.Now().Add(patience); i < 200 || host.Interrupted() == before && time.Now().Before(end); i++ {
		if _, err := node.Groups(); err != nil {
			t.Fatal(err)
		}
		if _, err := node.Interfaces(); err != nil {
			t.Fatal(err)
		}
	}
	if host.Interrupted() == before {
		t.Error("no list was interrupted: the test shows nothing")
	}
	t.Logf("%d lists interrupted", host.Interrupted()-before)
}
