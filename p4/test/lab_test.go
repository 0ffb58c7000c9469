// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

// TestLab: the lab as it is carries TCP of the hosts' own kernels, over IPv4 and IPv6. What a host
// gets is what the other has sent, and a collector in c knows the way of each packet.
func TestLab(t *testing.T) {
	live(t)
	for _, mode := range []string{md, md10, mx, xd} {
		t.Run(mode, func(t *testing.T) {
			n := startLab(t, map[string]string{"MODE": mode})
			n.capture()
			stop := n.collect()
			n.transfer("10.0.2.1", "-4")
			n.transfer("fd00:2::1", "-6")
			sent := n.compareHosts()
			stop()
			n.compareWays(sent)
		})
	}
}

// transfer sends data by TCP over several connections, so that both ways are taken, and back.
func (n *network) transfer(to, family string) {
	n.t.Helper()
	n.run("h2", "iperf3", "-s", "-1", "-D", family)
	nstest.WaitFor(n.t, "iperf3 in h2", func() bool {
		return strings.Contains(n.run("h2", "ss", "-Hltn", "sport = :5201"), "5201")
	})
	n.run("h1", "iperf3", family, "-c", to, "-P", "4", "-n", "20K", "--connect-timeout", "20000")
}

// collect runs radar collect in c. stop waits until no more reports come, and ends it.
func (n *network) collect() (stop func()) {
	n.t.Helper()
	radar := radarbin.Path(n.t)
	cmd := n.lab.Command(n.t.Context(), "c", radar, "collect", "--all", "--node", "1=s1,2=s2,3=s3,4=s4")
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = cmd.Process.Kill() })
	nstest.WaitFor(n.t, "radar collect", func() bool { return strings.Contains(said.String(), "collecting at") })
	return func() {
		n.t.Helper()
		last := -1
		nstest.WaitFor(n.t, "the last report", func() bool {
			now := n.captures["T"].count()
			time.Sleep(300 * time.Millisecond)
			quiet := now == last
			last = now
			return quiet
		})
		_ = cmd.Process.Signal(unix.SIGINT)
		if err := cmd.Wait(); err != nil {
			n.t.Errorf("radar collect: %v\n%s", err, &said)
		}
	}
}

// compareHosts compares what a host has sent with what the other got, and returns how many packets
// of TCP there were.
func (n *network) compareHosts() int {
	n.t.Helper()
	tcp := func(link string, from byte) (all [][]byte) {
		for i, f := range n.captures[link].frames() {
			p := parse(f)
			if p.proto != 6 || p.src()[map[int]int{4: 2, 6: 3}[p.v]] != from {
				continue
			}
			if all = append(all, f); len(p.faults) > 0 {
				n.t.Errorf("link %s, frame %d: %v", link, i, p.faults)
			}
		}
		return all
	}
	total := 0
	for _, d := range []struct {
		from, to string
		host     byte
		last     step
	}{{"A", "B", 1, ways[0][3]}, {"B", "A", 2, step{from: routerMAC(1, 1), to: mac(hostMAC(1))}}} {
		sent, got := tcp(d.from, d.host), tcp(d.to, d.host)
		for i := range sent {
			sent[i] = plain(sent[i], 3, d.last)
		}
		total += len(sent)
		slices.SortFunc(sent, bytes.Compare)
		slices.SortFunc(got, bytes.Compare)
		if len(sent) < 40 || !slices.EqualFunc(sent, got, bytes.Equal) {
			n.t.Errorf("from link %s to %s: %d packets sent, %d came; want the same bytes", d.from, d.to, len(sent), len(got))
		}
	}
	return total
}

// compareWays asks radar which ways the packets went.
func (n *network) compareWays(sent int) {
	n.t.Helper()
	radar := radarbin.Path(n.t)
	cmd := n.lab.Command(n.t.Context(), "c", radar, "paths", "-o", "json")
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("radar paths: %v", err)
	}
	packets, seen := 0, make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		var p struct {
			Packets int
			Path    string
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			n.t.Fatal(err)
		}
		packets += p.Packets
		seen[p.Path] = true
	}
	for _, way := range []string{"s1 > s2 > s4", "s1 > s3 > s4", "s4 > s2 > s1", "s4 > s3 > s1"} {
		if !seen[way] {
			n.t.Errorf("radar paths has not %s:\n%s", way, out)
		}
	}
	if packets != sent {
		n.t.Errorf("radar paths has %d packets, %d were sent:\n%s", packets, sent, out)
	}
	fmt.Printf("TCP of the hosts' kernels: %d packets, each with its way\n", sent)
}
