// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// nextSecond waits until a whole second later, so that what comes is in another one.
func nextSecond() {
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1100 * time.Millisecond)))
}

// secondsOf reads rows of --series: packets by second, of rows that are wanted.
func secondsOf[T any](w *clitest.World, of func(*T) (second int64, packets uint64), args ...string) map[int64]uint64 {
	w.Helper()
	stdout, stderr, code := clitest.Radar(w.T, append(args, "-o", "json")...)
	if code != kit.ExitOK {
		w.Fatalf("%v: exit code %d: %s", args, code, stderr)
	}
	sums := make(map[int64]uint64)
	dec := json.NewDecoder(strings.NewReader(stdout))
	for dec.More() {
		var row T
		if err := dec.Decode(&row); err != nil {
			w.Fatal(err)
		}
		if second, packets := of(&row); packets > 0 {
			sums[second] += packets
		}
	}
	return sums
}

// apart wants two bursts in two seconds or more, the first of them in [from, middle], with so many
// packets each.
func apart(w *clitest.World, what string, sums map[int64]uint64, middle int64, first, second uint64) {
	w.Helper()
	before, after := uint64(0), uint64(0)
	for at, n := range sums {
		if at < middle {
			before += n
		} else {
			after += n
		}
	}
	if before != first || after != second {
		w.Errorf("%s: %v; want %d packets before second %d and %d from then on", what, sums, first, middle, second)
	}
}

// Losses and latencies second by second, as the packets were sent.
func TestSeries(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("r1", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 9999 counter drop")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	burst := func(udp, pings int) {
		w.In("h1", "bash", "-c", fmt.Sprintf("for i in $(seq %d); do echo x >/dev/udp/10.0.2.2/9999; done", udp))
		w.Ping(pings)
	}
	burst(5, 7)
	nextSecond()
	middle := time.Now().Unix()
	burst(3, 2)
	w.Settled(8 + 2*9)
	w.Await([]string{"loss"}, "r1", "NETFILTER_DROP")

	losses := func(v *answer.LossSecond) (int64, uint64) {
		if v.Node != "r1" || v.Reason != "NETFILTER_DROP" && v.Function != "nf_hook_slow" {
			t.Errorf("lost elsewhere: %+v", v)
		}
		return v.TimeS, v.Packets
	}
	apart(w, "losses", secondsOf(w, losses, "loss", "--series"), middle, 5, 3)
	apart(w, "losses of what the ring has", secondsOf(w, losses, "loss", "--series", "--dst", "10.0.2.2"), middle, 5, 3)
	apart(w, "no losses", secondsOf(w, losses, "loss", "--series", "--proto", "icmp"), middle, 0, 0)
	latency := func(name string) func(v *answer.LatencySecond) (int64, uint64) {
		return func(v *answer.LatencySecond) (int64, uint64) {
			if v.Name != name {
				return 0, 0
			}
			if v.MinNs <= 0 || v.MinNs > v.P50Ns || v.P50Ns > v.MaxNs {
				t.Errorf("%+v", v)
			}
			return v.TimeS, v.Count
		}
	}
	apart(w, "end to end", secondsOf(w, latency("h1 > h2"), "latency", "--series"), middle, 7, 2)
	apart(w, "a link", secondsOf(w, latency("h1/eth0 > r1/eth0"), "latency", "--series", "--by", "link"), middle, 12, 5)
	apart(w, "a path", secondsOf(w, latency("h2 > r1 > h1"), "latency", "--series", "--by", "path", "--since", "1h"), middle, 7, 2)
	if out := w.Radar(kit.ExitOK, "loss", "--series"); !regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d +\d+ +\d+ +r1 .*firewall rule`).MatchString(out) {
		t.Errorf("loss --series:\n%s", out)
	}
	if out := w.Radar(kit.ExitOK, "latency", "--series", "-o", "csv"); !strings.HasPrefix(out, "time_s,by,name,count,") {
		t.Errorf("latency --series -o csv:\n%s", out)
	}
	for _, command := range []string{"loss", "latency"} {
		if out := w.Radar(kit.ExitUsage, command, "--series", "--by", "flow"); !strings.Contains(out, "seconds are not kept for each flow") {
			t.Errorf("%s --by flow: %s", command, out)
		}
	}
	w.Radar(kit.ExitLost, "loss", "--series", "--fail-if-lost")
}

// With -f a line says how many packets were lost in the last second, and a column where.
func TestLossFollow(t *testing.T) {
	w := clitest.NewWorld(t)
	w.In("r1", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 9999 counter drop")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	var out clitest.Growing
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int)
	go func() {
		done <- clitest.Run(ctx, []string{"loss", "-f", "--interval", "100ms"}, strings.NewReader(""), &out, &out)
	}()
	nstest.WaitFor(t, "the first answer", func() bool { return strings.Contains(out.String(), "nothing lost in the last second\n") })
	// However long an answer takes: sent until one counts what was lost meanwhile.
	counted := regexp.MustCompile(`(?m)^[1-9]\d* packets? lost in the last (second|\d+ seconds)\nPACKETS +LAST \d+s +SKBS .*\n *\d+ +[1-9]\d* +\d+ .*r1 .*NETFILTER_DROP`)
	nstest.WaitFor(t, "a second with losses", func() bool {
		w.UDPTo("10.0.2.2", 9999)
		return counted.MatchString(out.String())
	})
	cancel()
	if code := <-done; code != kit.ExitOK {
		t.Errorf("exit code %d:\n%s", code, out.String())
	}
}

// An answer counts the whole seconds since the one before, each once.
func TestRounds(t *testing.T) {
	v := &kit.View{}
	for _, c := range []struct {
		at        string
		from, end int64
	}{{"100.9", 99, 100}, {"101.95", 100, 101}, {"103.1", 101, 103}, {"103.2", 102, 103}, {"104.0", 103, 104}} {
		var s, tenths int64
		fmt.Sscanf(c.at, "%d.%d", &s, &tenths)
		v.Round(time.Unix(s, tenths*int64(time.Millisecond)))
		if v.From != c.from || v.End != c.end {
			t.Errorf("at %s: from %d to %d, want %d to %d", c.at, v.From, v.End, c.from, c.end)
		}
	}
	// Without -f nobody asks for them.
	k := &kit.Kit{View: v}
	if now := lossesNow(k, answer.NewCounts(aggregate.New(0), nil), false); now.Packets != 0 || now.Seconds != 1 {
		t.Errorf("%+v", now)
	}
	if now := lossesNow((&kit.Kit{}), nil, false); now != nil {
		t.Errorf("one answer alone: %+v", now)
	}
}
