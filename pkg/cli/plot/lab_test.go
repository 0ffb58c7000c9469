// SPDX-License-Identifier: Apache-2.0

package plot_test

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// TestLab: figures of packets that a kernel has sent have the numbers that radar packets shows, live and from a
// recording.
func TestLab(t *testing.T) {
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "run")
	w.In("r1", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "20mbit", "burst", "3000", "limit", "20000")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--record", dir}, w.Lab.AttachArgs()...)...)
	w.Ping(5)
	w.TCP(300000)
	w.Ended(10, "--proto", "icmp")
	var live []record.Record
	for { // until nothing is under way
		live = w.Packets("--last", "0")
		if !slices.ContainsFunc(live, func(r record.Record) bool { return r.State == record.InFlight }) {
			break
		}
	}
	all := [][]string{{"latency"}, {"latency", "--by", "queue", "--kind", "box"}, {"paths"}, {"loss"}, {"loss", "--kind", "time"}, {"queue"}, {"timeline", "--last", "50"}, {"timeline", "--of", "tcp"}}
	rows := make([][]map[string]string, len(all))
	for i, args := range all {
		_, rows[i], _ = drawn(t, "svg", args...)
	}
	w.Radar(kit.ExitOK, "detach")
	for i, args := range all {
		if _, again, _ := drawn(t, "svg", append(args, "-r", dir)...); !slices.EqualFunc(rows[i], again, maps.Equal[map[string]string, map[string]string]) {
			t.Errorf("radar plot %v: %d rows, of the recording %d, and they differ", args, len(rows[i]), len(again))
		}
	}
	lost := 0.0
	for _, r := range live {
		if r.State == record.Lost {
			lost += float64(r.Segs)
		}
	}
	if sum := total(t, rows[3], "packets"); lost == 0 || sum != lost || total(t, rows[4], "packets") != lost || total(t, rows[5], "dropped") != lost {
		t.Errorf("%v were lost; bars have %v, bins %v, queues %v", lost, sum, total(t, rows[4], "packets"), total(t, rows[5], "dropped"))
	}
	sequence(t, rows[7], live)
}

func total(t *testing.T, rows []map[string]string, name string) (sum float64) {
	for _, row := range rows {
		sum += number(t, row, name)
	}
	return sum
}

// moment is what a sequence plot has of a packet of the sender.
type moment struct {
	at, seq, end int64
	again, lost  bool
}

// isLost: what TCP frees itself (data that it has already, or of a socket that was closed) has arrived.
func isLost(r *record.Record) bool {
	if d := r.LocalDrop; d != nil {
		place := aggregate.LossPlace{Reason: d.Reason, Function: d.Function}
		return !place.FreedByTCP()
	}
	return r.State == record.Lost || r.State == record.Expired && r.Loss != nil
}

// sequence holds the moments of a TCP sender against its packets.
func sequence(t *testing.T, rows []map[string]string, packets []record.Record) {
	t.Helper()
	slices.SortStableFunc(packets, func(a, b record.Record) int { return cmp.Compare(a.TNs, b.TNs) })
	want, acks := make(map[string]moment), make(map[string]int64)
	first, sent := int64(-1), int64(0)
	for _, r := range packets {
		switch {
		case r.Proto != "tcp":
		case *r.Dport == 5001:
			if first < 0 {
				first = int64(*r.TCPSeq)
			}
			m := moment{at: r.TNs, seq: int64(uint32(int64(*r.TCPSeq) - first)), lost: isLost(&r)}
			m.end = m.seq + int64(*r.TCPPayload)
			if *r.TCPFlags&3 != 0 { // SYN and FIN have a number each
				m.end++
			}
			if m.again = *r.TCPPayload > 0 && m.seq < sent; m.end > m.seq {
				want[r.ID] = m
			}
			sent = max(sent, m.end)
		case r.State == record.Delivered:
			acks[r.ID] = r.TNs + *r.LatencyNs
		}
	}
	again := 0
	for _, row := range rows {
		if row["kind"] == "ack" {
			if at, ok := acks[row["id"]]; !ok || number(t, row, "t_ns") != float64(at) {
				t.Errorf("%v came at %d", row, at)
			}
			delete(acks, row["id"])
			continue
		}
		m, ok := want[row["id"]]
		if !ok || number(t, row, "t_ns") != float64(m.at) || number(t, row, "seq") != float64(m.seq) || number(t, row, "end") != float64(m.end) ||
			(row["kind"] == "retransmission") != m.again || (row["lost"] == "true") != m.lost {
			t.Errorf("%v, want %+v", row, m)
		}
		if m.again {
			again++
		}
		delete(want, row["id"])
	}
	if len(want)+len(acks) > 0 || again == 0 {
		t.Errorf("not drawn: %v, acknowledgements %v; %d were sent again", want, acks, again)
	}
}
