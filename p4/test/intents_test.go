// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

// topology is the lab as `radar int topology set` reads it.
func (n *network) topology() string {
	var b strings.Builder
	b.WriteString("nodes:\n  - {name: h1}\n  - {name: h2}\n")
	for s := 1; s <= 4; s++ {
		t := reportPort(s)
		fmt.Fprintf(&b, `  - name: s%d
    driver: p4runtime
    spec: 127.0.0.1:9559
    options:
      device_id: %d
      namespace: netns:%s
      ports: {eth0: 1, eth1: 2, eth2: 3}
      collector: {port: %d, src_mac: "%v", dst_mac: "02:00:00:00:00:09", src: 10.0.9.%d}
`, s, s, n.lab.NetNSPath(fmt.Sprint("s", s)), t, routerMAC(s, t), s)
	}
	b.WriteString(`links:
  - [h1/eth0, s1/eth0]
  - [s1/eth1, s2/eth0]
  - [s1/eth2, s3/eth0]
  - [s2/eth1, s4/eth1]
  - [s3/eth1, s4/eth2]
  - [s4/eth0, h2/eth0]
`)
	return b.String()
}

// TestIntents: a user says what to observe, and all switches do it: no entry is written by hand. A switch that was
// killed gets its entries again, and stopping leaves nothing.
func TestIntents(t *testing.T) {
	live(t)
	n := startLab(t, nil)
	n.capture()
	binary := radarbin.Path(t)
	radar := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"--domain", n.lab.Name}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("radar %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	file := filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(file, []byte(n.topology()), 0o600); err != nil {
		t.Fatal(err)
	}
	radar("int", "topology", "set", "-f", file)
	radar("int", "config", "set", "--collector", "10.0.9.9:32766")
	nstest.Cleanup(t, func() {
		out, err := exec.Command(binary, "--domain", n.lab.Name, "int", "stop", "--force").CombinedOutput()
		if err != nil {
			t.Logf("radar int stop: %v\n%s", err, out)
		}
	})
	radar("int", "start")
	n.send(4711, 10)
	n.wants("L2+L3", 4711, 0, 10)
	radar("int", "intent", "add", "web", "--proto", "udp", "--dport", "4096-8191")
	n.send(4711, 10)
	n.wants("L2+L3", 4711, 10, 0)
	n.wants("B", 4711, 0, 10)

	n.restart(2) // a transit: forwarding is lost with it, which is not INT's
	nstest.WaitFor(t, "s2 to be ready again", func() bool {
		held, err := n.client("s2").readAll(t.Context(), 2)
		return err == nil && len(held.GetEntities()) > 4 && strings.Count(radar("int", "devices"), "ready") == 4
	})
	radar("int", "intent", "remove", "web")
	lines := radar("int", "devices")
	if strings.Count(lines, "ready") != 4 {
		t.Errorf("not all switches are ready:\n%s", lines)
	}
	radar("int", "stop")
	for s := 1; s <= 4; s++ {
		held, err := n.client(fmt.Sprint("s", s)).readAll(t.Context(), uint64(s))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range held.GetEntities() {
			switch e.GetTableEntry().GetTableId() {
			case 48132632, 44474697, 34771773, 33770344: // watchlist, ports, collectors
				t.Errorf("s%d still holds %v", s, e)
			}
		}
	}
}
