// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/generate"
)

// BenchmarkXDP is what a report costs above a program that drops it at once (ns-above-drop): one
// hot flow, all nine fields a hop. taken: latencies and times move and nothing is new; up: there
// is no template, so that it goes up, and most find the buffer full, as at an overload.
func BenchmarkXDP(b *testing.B) {
	for _, hops := range []int{1, 6, 14, 19} {
		for _, known := range []bool{true, false} {
			name := fmt.Sprintf("taken/%d-hops", hops)
			if !known {
				name = fmt.Sprintf("up/%d-hops", hops)
			}
			b.Run(name, func(b *testing.B) { benchmark(b, hops, known) })
		}
	}
}

func benchmark(b *testing.B, hops int, known bool) {
	oneCPU(b)
	next := packets(b, generate.Description{
		Version: generate.V10, Instructions: 0xff00, Hops: hops, Latency: generate.Range{Min: 1000, Max: 1080},
	})
	c := shares()
	path, err := open(testOptions(c, 1000))
	if err != nil {
		b.Fatal(err)
	}
	defer path.Close()
	h := newHearing(b, c, 0)
	h.Use(path)
	var frame []byte
	for range 3 {
		ip := next()
		if known {
			path.run(b, h, ip)
		}
		frame = append(make([]byte, 14), ip...)
		frame[12] = 8
	}
	const repeat = 100000
	var ours, drop time.Duration
	b.ResetTimer()
	for n := 0; b.Loop(); n++ { // in turn: the machine may have other work
		if _, t, err := path.objs.RadarDrop.Benchmark(frame, repeat, nil); err != nil {
			b.Fatal(err)
		} else {
			drop += t
		}
		verdict, t, err := path.objs.RadarCollect.Benchmark(frame, repeat, nil)
		if err != nil || verdict != xdpDrop {
			b.Fatal(verdict, err)
		}
		ours += t
	}
	n := float64(b.N)
	b.ReportMetric((float64(ours)-float64(drop))/n, "ns-above-drop")
	b.ReportMetric(float64(drop)/n, "ns-drop")
	b.ReportMetric(0, "ns/op")
}
