// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/dropwatch"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// A router whose neighbour entry is no longer true sends to an address that the receiver does
// not have. The kernel frees that as OTHERHOST: a loss at that port, with this reason. Where a
// program reads what comes in there, the packet may be with that program.
func TestStaleNeighbour(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "2s"}, w.Lab.AttachArgs()...)...)
	w.Ping(1) // every address is known
	w.Settled(2)
	w.In("r1", "ip", "neigh", "replace", "10.0.2.2", "lladdr", "02:00:00:00:be:ef", "dev", "eth1", "nud", "permanent")
	send := func(port string) {
		w.In("h1", "python3", "-c", `
import os, socket, sys
for df in 0, 2: # IP_PMTUDISC_DONT, IP_PMTUDISC_DO: found by key, and by the header
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, 10, df)
    for i in range(50):
        s.sendto(os.urandom(32), ("10.0.2.2", int(sys.argv[1])))`, port)
	}
	send("9000")
	w.Python("h2", `
import socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 3)) # ETH_P_ALL
print("ready", flush=True)
time.sleep(3600)`)
	send("9001")
	nstest.WaitFor(t, "all packets to end", func() bool {
		v := w.Status().Totals
		return v.Seen >= 202 && v.InFlight == 0
	})
	got := make(map[string]int)
	for _, r := range w.Packets("--last", "1000", "udp") {
		text := string(r.State)
		if r.Loss != nil {
			text += " " + r.Loss.Node + "/" + r.Loss.Port + " " + string(r.Loss.At) + " " + r.Loss.Reason
		}
		if *r.Dport == 9001 {
			text += " read"
		}
		got[text]++
	}
	if len(got) != 2 || got["lost h2/eth0 ingress OTHERHOST"] != 100 || got["expired h2/eth0 node NOT_SEEN read"] != 100 {
		t.Errorf("ends: %v\nwant 100 lost at h2/eth0 for OTHERHOST, and 100 that were read there and not seen again", got)
	}
	if out := w.Radar(kit.ExitOK, "loss"); !strings.Contains(out, "OTHERHOST") {
		t.Errorf("radar loss:\n%s", out)
	}
}

// Copies that a switch floods are for another host: they are ignored where they come, whether
// they do before or after the packet was delivered. What a bridge frees of them, because the
// receiver is on the other side, is no drop by the receiver.
func TestFloodedCopies(t *testing.T) {
	w := clitest.NewWorldOf(t, "switches", nil)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "2s"}, w.Lab.AttachArgs()...)...)
	hosts := []string{"h1", "h2", "h3", "h4", "h5"}
	for i, h := range hosts {
		w.In(h, "sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=0")
		w.In(h, "ip", "addr", "add", fmt.Sprintf("2001:db8::%d/64", i+1), "dev", "eth0", "nodad")
	}
	nstest.WaitFor(t, "the agent to measure IPv6", func() bool { return !w.Status().IPv6Held })
	pings := uint64(0)
	ping := func(from string, to ...string) {
		for _, dst := range to {
			w.In(from, "ping", "-q", "-c", "20", "-i", "0.01", dst)
			pings += 40
		}
		nstest.WaitFor(t, "all packets to end", func() bool {
			v := w.Status().Totals
			return v.Seen >= pings && v.InFlight == 0
		})
	}
	w.In("sw1", "ip", "link", "set", "br0", "type", "bridge", "ageing_time", "0") // it learns nothing
	nstest.WaitFor(t, "the bridge to forget what it has learned", func() bool {
		for line := range strings.Lines(w.In("sw1", "bridge", "fdb", "show", "br", "br0")) {
			if !strings.Contains(line, "permanent") {
				return false
			}
		}
		return true
	})
	drops := dropwatch.Start(t)
	ping("h1", "10.0.0.3", "10.0.0.5", "2001:db8::3", "2001:db8::5")
	// The last copies may still wait when all packets have ended.
	var ignored map[int]uint64 // by IP version
	var untold uint64
	nstest.Cleanup(t, func() {
		if t.Failed() {
			t.Logf("copies ignored at h2: %v; radar was not told of at most %d", ignored, untold)
		}
	})
	nstest.WaitFor(t, "a copy of each packet to be ignored at h2", func() bool {
		ignored = make(map[int]uint64)
		for _, r := range w.Packets("--last", "1000", "icmp or icmp6") {
			if r.State != record.Delivered || r.Loss != nil || r.LocalDrop != nil || len(r.Losses) > 0 {
				text, _ := json.Marshal(r)
				t.Fatalf("a flooded packet: %s", text)
			}
			for _, h := range r.Hops {
				if h.Outcome == record.Ignored && h.Node == "h2" {
					ignored[r.IPVersion]++
				}
			}
		}
		untold = w.Untold(drops, "OTHERHOST")
		return ignored[4]+untold >= 80 && ignored[6]+untold >= 80
	})
	for _, name := range []string{"loss_event", "local_drop"} {
		if n := w.Counter(name); n != 0 {
			t.Errorf("%s is %d, where only copies for other hosts were freed", name, n)
		}
	}

	ping("h3", "10.0.0.5")
	w.In("sw1", "ip", "link", "set", "br0", "type", "bridge", "ageing_time", "30000")
	w.In("sw2", "ip", "link", "set", "br0", "type", "bridge", "ageing_time", "0")
	// The bridge that joins h4 and h5 gets copies, most of them after the packets were delivered, and knows
	// on which side h1 and h3 are.
	w.In("sw2", "tc", "qdisc", "add", "dev", "eth2", "root", "tbf", "rate", "60kbit", "burst", "150", "limit", "100000")
	before := w.Counter("loss_ignored")
	ping("h1", "10.0.0.3", "2001:db8::3")
	nstest.WaitFor(t, "late copies to be freed", func() bool {
		return w.Counter("loss_ignored")+w.Counter("local_drop") >= before+60
	})
	for _, r := range w.Packets("--last", "1000", "icmp or icmp6") {
		if r.State != record.Delivered || r.LocalDrop != nil {
			text, _ := json.Marshal(r)
			t.Fatalf("a flooded packet: %s", text)
		}
	}
	if n := w.Counter("local_drop"); n != 0 {
		t.Errorf("local_drop is %d, where only a bridge freed copies", n)
	}
}
