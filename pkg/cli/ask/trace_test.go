// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/answer/story"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// storyRecords are sampleRecords and others of which there is more to tell.
func storyRecords() []*record.Record {
	records := clitest.SampleRecords()
	delivered := *records[0]
	changed := delivered
	changed.TTLSent, changed.DSCPSent, changed.ECNSent, changed.DSCP, changed.ECN = clitest.Ptr(62), clitest.Ptr(0), clitest.Ptr(3), 46, 1
	expired := delivered
	expired.State, expired.Hops = record.Expired, delivered.Hops[:2]
	taken := delivered
	taken.State = record.Expired
	headless := record.Record{ID: "5f3a9c01-9", State: record.Delivered, TNs: delivered.TNs, Proto: "tcp", Len: 1500, Segs: 1,
		Hops: delivered.Hops[2:], Truncated: true}
	silent := *records[1]
	silent.Loss = &record.Loss{Node: "r1", Port: "e1", At: record.AtEgress}
	strange := *records[1]
	strange.Loss = &record.Loss{Node: "h2", Port: "e0", At: record.AtIngress, Reason: "4711", AtNs: clitest.Ptr(int64(9000))}
	return append(records, &changed, &expired, &taken, &headless, &silent, &strange)
}

// Stories, as committed.
func TestStories(t *testing.T) {
	d := &domain.Domain{Options: domain.Options{Timeout: 10 * time.Second},
		Nodes: []domain.Node{{ID: 2, Name: "r1"}, {ID: 4, Name: "h2"}},
		Ports: []domain.Port{{ID: 0, Node: 2, Name: "e1", Peer: 1}, {ID: 1, Node: 4, Name: "e0", Peer: 0}}}
	now := time.Date(2026, 3, 2, 10, 15, 30, 0, time.UTC)
	tell := &wording.Teller{Sentences: wording.Sentences{Location: time.UTC, Now: now, Face: kit.Face}}
	var plain, colored, lines bytes.Buffer
	for i, r := range storyRecords() {
		s := tell.Tell(story.New(r, i/10*3, d, now))
		for _, p := range []struct {
			out     *bytes.Buffer
			colored bool
		}{{&plain, false}, {&colored, true}} {
			if err := printStory(kit.Visible(p.out), s, p.colored); err != nil { // as a terminal gets it
				t.Fatal(err)
			}
			p.out.WriteString("\n")
		}
		if err := printStoryJSON(&lines, r, s); err != nil {
			t.Fatal(err)
		}
	}
	clitest.Golden(t, "trace.table", plain.Bytes())
	clitest.Golden(t, "trace.json", lines.Bytes())
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	if got := escapes.ReplaceAllString(colored.String(), ""); got != plain.String() || got == colored.String() {
		t.Errorf("with colours the text is another, or there are none:\n%q", colored.String())
	}
}

// Colours are for terminals, of users who do not object.
func TestColored(t *testing.T) {
	terminal := clitest.OpenTerminal(t)
	for _, c := range []struct {
		out  any
		env  map[string]string
		want bool
	}{
		{kit.Visible(terminal), map[string]string{"TERM": "xterm"}, true},
		{kit.Visible(&bytes.Buffer{}), map[string]string{"TERM": "xterm"}, false},
		{terminal, map[string]string{"TERM": "xterm"}, true},
		{terminal, map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true},
		{terminal, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		{terminal, map[string]string{"TERM": "dumb"}, false},
		{terminal, map[string]string{}, false},
		{&bytes.Buffer{}, map[string]string{"TERM": "xterm"}, false},
	} {
		k := &kit.Kit{Stdout: c.out.(interface{ Write([]byte) (int, error) }), LookupEnv: func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }}
		if got := k.Colored(); got != c.want {
			t.Errorf("%T, %v: %v, want %v", c.out, c.env, got, c.want)
		}
	}
}

// Real packets: what routers and rules did to them is in their stories.
func TestTrace(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("r1", "nft", `add table t
		add chain t post { type nat hook postrouting priority 100; }
		add rule t post udp dport 53 snat to 10.0.2.1
		add chain t f { type filter hook forward priority 0; }
		add rule t f udp dport 53 ip dscp set 46
		add rule t f udp dport 9999 drop`)
	// What leads a packet to the node itself is told by the kernel (Linux 6.4).
	w.In("r1", "nft", "add chain t pre { type nat hook prerouting priority -100; }; add rule t pre udp dport 7777 redirect to 7001")
	w.Listen("r1", 7001)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	send := func(port int) {
		w.In("h1", "bash", "-c", fmt.Sprintf("exec 3<>/dev/udp/10.0.2.2/%d; echo x >&3", port))
	}
	send(53)
	send(9999)
	send(7777)
	w.Ping(1)
	nstest.WaitFor(t, "all packets to end", func() bool { return w.Status().Totals.InFlight == 0 })

	id := func(dport string) string {
		packets := w.Packets("--proto", "udp", "--dport", dport, "--last", "1")
		if len(packets) != 1 {
			t.Fatalf("%d packets to port %s", len(packets), dport)
		}
		return packets[0].ID
	}
	for port, want := range map[string][]string{
		"53": {"delivered after", "TTL 64 > 63, DSCP 0 > 46", "0  h1  sent by eth0", "r1  in by eth0 after", "out by eth1 after",
			"source now 10.0.2.1", "h2  in by eth0 after", "Longest: "},
		"9999": {": lost", "r1  LOST inside the node: a firewall rule (nftables, iptables) dropped it [NETFILTER_DROP, nft_do_chain()]"},
		"7777": {"delivered after", "r1  in by eth0"},
	} {
		out := w.Radar(kit.ExitOK, "trace", id(port))
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("port %s: no %q in\n%s", port, text, out)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("colours in what is no terminal: %q", out)
		}
	}
	if out := w.Radar(kit.ExitOK, "trace", "--last"); !strings.Contains(out, "icmp 10.0.2.2 > 10.0.1.1 reply") {
		t.Errorf("the newest packet is not ping's reply:\n%s", out)
	}
	if out := w.Radar(kit.ExitOK, "trace", "--last=2", "--state", "lost,expired"); strings.Count(out, ": lost\n")+strings.Count(out, ": expired") != 1 {
		t.Errorf("one did not arrive:\n%s", out)
	}

	// The record in JSON is the one that packets prints.
	var told, listed map[string]any
	for out, v := range map[string]*map[string]any{
		w.Radar(kit.ExitOK, "trace", id("9999"), "-o", "json"):          &told,
		w.Radar(kit.ExitOK, "packets", "--dport", "9999", "-o", "json"): &listed,
	} {
		if err := json.Unmarshal([]byte(out), v); err != nil {
			t.Fatal(err)
		}
	}
	if lines, _ := told["story"].([]any); len(lines) < 4 {
		t.Errorf("story %v", told["story"])
	}
	delete(told, "story")
	if a, b := fmt.Sprint(told), fmt.Sprint(listed); a != b {
		t.Errorf("trace says\n%s, packets\n%s", a, b)
	}
}

// Who asks for a packet that is not there learns why.
func TestTraceMissing(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	if out := w.Radar(kit.ExitFailure, "trace", "--last"); !strings.Contains(out, "nothing was measured yet") {
		t.Errorf("of an empty ring: %s", out)
	}
	w.Ping(1)
	w.Settled(2)
	first := w.Packets("--src", "10.0.1.1")[0]
	w.Radar(kit.ExitOK, "trace", first.ID)
	// More packets than the ring has slots. A block that an idle CPU gives up keeps its packets for another round.
	for range 5 {
		w.In("h1", "python3", "-c", `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(70000): s.sendto(b"x", ("10.0.2.2", 9))`)
		if _, _, code := clitest.Radar(t, "trace", first.ID); code != kit.ExitOK {
			break
		}
	}
	out := w.Radar(kit.ExitFailure, "trace", first.ID, w.Packets("--last", "1")[0].ID)
	for _, want := range []string{first.ID + ": the ring does not remember it any more: the ring remembers ", " packets, from ", "--slots than 65536"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(out, "h1") {
		t.Errorf("the packet that is there is not told:\n%s", out)
	}
	epoch, _, _ := strings.Cut(first.ID, "-")
	for id, want := range map[string]string{
		epoch + "-ffffffffffff": "no packet has this id",
		"00000000-1":            "begin with " + epoch,
	} {
		if out := w.Radar(kit.ExitFailure, "trace", id); !strings.Contains(out, want) {
			t.Errorf("%s: %s", id, out)
		}
	}
}
