// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// sixHops is the payload of a report of TR 2.0 with every metadatum, which quotes a
// UDP packet with INT-MD of six hops, every instruction.
func sixHops(t testing.TB) []byte {
	t.Helper()
	const all = 0xff81
	in := INT{Shim: Shim{Form: Shim20, OrigDSCP: 10}, Header: Header{Layout: INT20, Type: TypeMD, RemainingHops: 2, Bitmap: all}}
	for n := range uint64(6) {
		var h Hop
		for f := range ChecksumComplement + 1 {
			if f != CongestionQueueID && f != QueueCongestion {
				h.Set(f, n+uint64(f))
			}
		}
		in.Hops = append(in.Hops, h)
	}
	stack, err := AppendINT(nil, &in)
	if err != nil {
		t.Fatal(err)
	}
	udp := append([]byte{0x9c, 0x40, 0x1f, 0x90, 0, uint8(8 + len(stack)), 0, 0}, stack...)
	if 8+len(stack) > 255 {
		udp[4], udp[5] = uint8((8+len(stack))>>8), uint8(8+len(stack))
	}
	total := 20 + len(udp)
	ip := append([]byte{0x45, 0x5c, uint8(total >> 8), uint8(total), 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}, udp...)
	s := Single{RepType: 1, InType: InnerIPv4, F: true, RepMdBits: 0x7f80, Inner: ip}
	for f := range BufferOcc + 1 {
		s.Values.Set(f, uint64(f))
	}
	b, err := AppendGroup(nil, &Group{HwID: 1, Sequence: 7, NodeID: 9})
	if err != nil {
		t.Fatal(err)
	}
	if b, err = AppendSingle(b, &s); err != nil {
		t.Fatal(err)
	}
	return b
}

// wrap puts a UDP payload into Ethernet, IPv4 and UDP to a port.
func wrap(payload []byte, port uint16) []byte {
	n := 28 + len(payload)
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0,
		0x45, 0, uint8(n >> 8), uint8(n), 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 3, 10, 9, 9, 9,
		0, 0, uint8(port >> 8), uint8(port), uint8((n - 20) >> 8), uint8(n - 20), 0, 0}
	return append(b, payload...)
}

func checkSixHops(t testing.TB, m *Message) {
	t.Helper()
	if len(m.Anomalies) != 0 || len(m.Reports) != 1 || len(m.Embedded) != 1 || len(m.Embedded[0].Hops) != 6 {
		t.Fatalf("%s", m.AppendJSON(nil))
	}
}

func benchmarkReport(b *testing.B, p *Profile, decode func(*Decoder, *Message)) {
	d, m := Decoder{Profile: p}, Message{}
	decode(&d, &m)
	checkSixHops(b, &m)
	b.ReportAllocs()
	defer cpuTime(b)()
	for b.Loop() {
		decode(&d, &m)
	}
}

// cpuTime reports the CPU time beside the time that has passed: on a busy machine they
// differ.
func cpuTime(b *testing.B) func() {
	runtime.LockOSThread()
	start := threadTime(b)
	return func() {
		b.ReportMetric(float64(threadTime(b)-start)/float64(b.N), "cpu-ns/op")
		runtime.UnlockOSThread()
	}
}

func threadTime(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}

// Six hops, all fields: from the UDP payload, as a collector gets it, and from the
// frame, as in a capture; with a profile and without.
func BenchmarkSixHops(b *testing.B) {
	payload := sixHops(b)
	frame := wrap(payload, 32766)
	spec := ProfileByName("spec-2.1")
	b.Run("payload/profile", func(b *testing.B) {
		benchmarkReport(b, spec, func(d *Decoder, m *Message) { d.DecodeReport(m, payload) })
	})
	b.Run("payload/recognised", func(b *testing.B) {
		benchmarkReport(b, nil, func(d *Decoder, m *Message) { d.DecodeReport(m, payload) })
	})
	b.Run("frame/profile", func(b *testing.B) {
		benchmarkReport(b, spec, func(d *Decoder, m *Message) { d.Decode(m, StartEthernet, frame) })
	})
	b.Run("frame/recognised", func(b *testing.B) {
		benchmarkReport(b, nil, func(d *Decoder, m *Message) { d.Decode(m, StartEthernet, frame) })
	})
}

func BenchmarkEncodeSixHops(b *testing.B) {
	var d Decoder
	var m Message
	d.DecodeReport(&m, sixHops(b))
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	defer cpuTime(b)()
	for b.Loop() {
		if _, err := AppendINT(buf, &m.Embedded[0]); err != nil {
			b.Fatal(err)
		}
	}
}
