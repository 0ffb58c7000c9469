// SPDX-License-Identifier: Apache-2.0

package kit_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/words"
)

// recorder makes records of a domain's packets.
type recorder struct {
	*backpack.Recorder
	dec *backpack.Decoder
}

func (r recorder) UnixNs(p *packet.Packet) int64 { return p.UnixNs(r.dec) }

// somePackets are of a domain with a bridge, each of another kind.
func somePackets() map[string]packet.Packet {
	udp := packet.Packet{
		Pos: 1 << 20, T0: 5e9, State: record.Delivered, LastNs: 9000, LatencyNs: 9000, HasTuple: true, Proto: record.ProtoUDP,
		Tuple: packet.Tuple{Src: packet.AddrFrom4([4]byte{10, 0, 1, 1}), Dst: packet.AddrFrom4([4]byte{10, 0, 2, 2}), SrcPort: 4000, DstPort: 53},
		TTL:   64, SentTTL: 63, Len: 100, Segs: 1,
		Hops: []packet.Hop{
			{Node: 1, In: packet.NoPort, Out: 0, InNs: packet.NoTime, OutNs: 0, DequeueNs: packet.NoTime},
			{Node: 2, In: 1, Out: packet.NoPort, InNs: 9000, OutNs: packet.NoTime, DequeueNs: packet.NoTime},
		},
	}
	fragment, lost, dropped, ping, truncated, circle := udp, udp, udp, udp, udp, udp
	fragment.FragOff = 1<<13 | 20
	lost.State, lost.Lost, lost.LatencyNs = record.Lost, true, packet.NoTime
	lost.Loss = packet.Drop{Node: 2, Port: 1, At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", Function: packet.NamedFunction("f"), AtNs: 5}
	dropped.LocalDrop, dropped.Loss = true, packet.Drop{Node: 2, Port: 1, At: record.AtNode, Reason: "NO_SOCKET", Function: packet.NamedFunction("g")}
	ping.Proto, ping.ICMP = record.ProtoICMP, [2]uint8{8, 0}
	truncated.Truncated = true
	// It goes round from node 1 to node 4, until its TTL is used up.
	circle.State, circle.Lost, circle.TTL, circle.SentTTL = record.Lost, true, 2, 1
	circle.Loss = packet.Drop{Node: 4, Port: 5, At: record.AtNode, Reason: "IP_INHDR"}
	circle.Hops = []packet.Hop{{Node: 1, In: 0, Out: 4}, {Node: 4, In: 5, Out: 6}, {Node: 1, In: 0, Out: 4}, {Node: 4, In: 5, Out: 6}}
	return map[string]packet.Packet{"udp": udp, "fragment": fragment, "lost": lost, "dropped": dropped, "ping": ping, "truncated": truncated, "circle": circle}
}

// variants calls fn once for each number, text and flag of v, with another value there.
func variants(name string, v reflect.Value, fn func(name string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			variants(name+"."+v.Type().Field(i).Name, v.Field(i), fn)
		}
		return
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			variants(fmt.Sprintf("%s[%d]", name, i), v.Index(i), fn)
		}
		return
	case reflect.Pointer:
		v.Set(reflect.ValueOf(packet.NamedFunction("another")))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(map[bool]string{true: string(record.Left), false: string(record.Expired)}[v.String() != string(record.Left)])
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	default:
		v.SetInt(v.Int() + 1)
	}
	fn(name)
	v.Set(old)
}

// TestAddPacket: a line from the cache is the line of the next packet, whatever is different about that.
func TestAddPacket(t *testing.T) {
	d := clitest.BridgedDomain()
	dec := backpack.NewDecoder(d, nil)
	names := wording.NewNames(d)
	for kind, p := range somePackets() {
		var packets []packet.Packet
		var changes []string
		variants("", reflect.ValueOf(&p).Elem(), func(change string) {
			c := p
			c.Hops = append([]packet.Hop(nil), p.Hops...)
			packets, changes = append(packets, p, p, c), append(changes, change)
		})
		printer := func(out *bytes.Buffer) *kit.PacketPrinter {
			printer := kit.NewPacketPrinter(out, kit.FormatTable, time.UTC)
			printer.Shown = names
			return printer
		}
		var got, want bytes.Buffer
		repeating, plain := printer(&got), printer(&want)
		bare, all := recorder{backpack.NewRecorder(dec, true), dec}, backpack.NewRecorder(dec, false)
		for i := range packets {
			got.Reset()
			want.Reset()
			if err := repeating.AddPacket(&packets[i], bare); err != nil {
				t.Fatal(err)
			}
			printAll(t, plain, all.Record(&packets[i]))
			if err := repeating.Flush(); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() {
				t.Errorf("%s with another %s:\n%swant\n%s", kind, changes[i/3], got.String(), want.String())
			}
		}
	}
}

// A packet that was lost has no latency in a table: the time to where it was seen last is none.
func TestLostHasNoLatency(t *testing.T) {
	d := clitest.BridgedDomain()
	dec := backpack.NewDecoder(d, nil)
	all := recorder{backpack.NewRecorder(dec, false), dec}
	lost := somePackets()["udp"]
	lost.State, lost.Lost, lost.LatencyNs = record.Lost, true, 7777
	gone := somePackets()["udp"]
	gone.State, gone.Missing, gone.LatencyNs = record.Expired, true, 7777
	for _, p := range []packet.Packet{lost, gone} {
		var cached, plain bytes.Buffer
		printer := kit.NewPacketPrinter(&cached, kit.FormatTable, time.UTC)
		for range 3 {
			if err := printer.AddPacket(&p, all); err != nil {
				t.Fatal(err)
			}
		}
		if err := printer.Flush(); err != nil {
			t.Fatal(err)
		}
		printAll(t, kit.NewPacketPrinter(&plain, kit.FormatWide, time.UTC), all.Record(&p))
		for _, out := range []string{cached.String(), plain.String()} {
			if strings.Contains(out, words.Duration(7777)) {
				t.Errorf("%s:\n%s", p.State, out)
			}
		}
	}
}

// Rows are printed in the order of their times, and those of one time as they came; columns are as wide
// as the rows that are kept need them.
func TestPrinterOrder(t *testing.T) {
	d := clitest.BridgedDomain()
	dec := backpack.NewDecoder(d, nil)
	of := recorder{backpack.NewRecorder(dec, true), dec}
	for _, format := range []kit.Format{kit.FormatTable, kit.FormatWide, kit.FormatJSON, kit.FormatCSV} {
		p := somePackets()["udp"]
		var got, want bytes.Buffer
		sorted, plain := kit.NewPacketPrinter(&got, format, time.UTC), kit.NewPacketPrinter(&want, format, time.UTC)
		all := backpack.NewRecorder(dec, false)
		if kit.ShowsNames(format) {
			of.Recorder = all
		}
		for i, at := range []uint64{7, 3, 5, 3, 9, 1} {
			p.T0, p.Len = at*1e9, uint32(i)
			if i == 5 {
				p.Len = 1_000_000_000 // not among those that are kept
			}
			if err := sorted.AddPacket(&p, of); err != nil {
				t.Fatal(err)
			}
		}
		sorted.Sort()
		sorted.KeepLast(5)
		sorted.KeepFirst(4)
		if err := sorted.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			at  uint64
			len uint32
		}{{3, 1}, {3, 3}, {5, 2}, {7, 0}} {
			p.T0, p.Len = row.at*1e9, row.len
			if err := plain.Add(all.Record(&p)); err != nil {
				t.Fatal(err)
			}
		}
		if err := plain.Flush(); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() || sorted.Len() != 0 {
			t.Errorf("%s:\n%swant\n%s", format, got.String(), want.String())
		}
	}
}
