// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// benchDatagram is how much each datagram carries.
const benchDatagram = 1400

// BenchmarkPayload measures what the hooks of two ports cost for a datagram with a capture of payload, by the kernel's own
// statistics, beside radar alone: captures of several lengths take turns, round by round. An iteration is a round. Run it
// with: go test ./pkg/vnet/payload -run '^$' -bench . -benchtime 7x
func BenchmarkPayload(b *testing.B) {
	need.AsRoot(b)
	b.Setenv("RADAR_STATE_DIR", b.TempDir())
	n := nstest.New(b, "h1", "h2")
	n.Veth("h1", "eth0", "h2", "eth0")
	n.Address("h1", "eth0", "10.9.1.1/24")
	n.Address("h2", "eth0", "10.9.1.2/24")
	var specs []topo.NodeSpec
	for _, name := range []string{"h1", "h2"} {
		spec, err := topo.ParseSpec(n.Spec(name))
		if err != nil {
			b.Fatal(err)
		}
		specs = append(specs, spec)
	}
	o := program.DefaultOptions()
	o.Lease = 0
	domainName := nstest.Unique()
	r, err := datapath.Attach(b.Context(), datapath.AttachRequest{Domain: domainName, Nodes: specs, Options: &o})
	if err != nil {
		b.Fatal(err)
	}
	nstest.Cleanup(b, func() {
		if _, err := datapath.Detach(b.Context(), datapath.DetachRequest{Domain: domainName, NoDrain: true}); err != nil {
			b.Error(err)
		}
	})
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatal(err)
	}
	defer stats.Close()
	lens := []int{0, 64, 256, 1500}
	took := make(map[int][]float64)
	for range b.N {
		for _, l := range lens {
			took[l] = append(took[l], benchRound(b, n, r, l))
		}
	}
	for _, l := range lens[1:] {
		var ratios []float64
		for i, ns := range took[l] {
			ratios = append(ratios, ns/took[0][i])
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], fmt.Sprintf("x/%d", l))
		slices.Sort(took[l])
		b.ReportMetric(took[l][len(ratios)/2], fmt.Sprintf("ns/%d", l))
	}
	slices.Sort(took[0])
	b.ReportMetric(took[0][len(took[0])/2], "ns/radar")
}

// benchRound sends datagrams from h1 to h2, and returns what both hooks took for one, ns.
func benchRound(b *testing.B, n *nstest.Net, r *datapath.AttachResult, length int) float64 {
	b.Helper()
	if length > 0 {
		c, err := Open(r.Domain, Options{Len: length, At: func(string, string) bool { return true }})
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			if counts, err := c.Counts(); err != nil || counts.RingFull > 0 {
				b.Errorf("%d bytes: %+v, %v", length, counts, err)
			}
			c.Close()
		}()
	}
	const packets = 20000
	flood(b, n, 1000) // caches
	runs, before := statsOf(b, n)
	flood(b, n, packets)
	later, after := statsOf(b, n)
	both := float64(later-runs) / 2 // some packets may still be on their way
	if both < packets/2 {
		b.Fatalf("%d runs of radar's programs for %d packets", later-runs, packets)
	}
	return float64(after-before) / both
}

// flood sends datagrams to a port at which nobody reads.
func flood(b *testing.B, n *nstest.Net, packets int) {
	b.Helper()
	in(b, n, "h1", func() error {
		to, err := net.Dial("udp", "10.9.1.2:9")
		if err != nil {
			return err
		}
		defer to.Close()
		for range packets {
			_, _ = to.Write(make([]byte, benchDatagram)) // an ICMP error may be told
		}
		return nil
	})
}

func in(b *testing.B, n *nstest.Net, name string, f func() error) {
	b.Helper()
	ns, _, err := host.OpenNetns(n.Path(name))
	if err == nil {
		err = host.InNetns(ns, f)
		ns.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
}

// statsOf are the runs of radar's own programs where the datagrams go out and come in, and the time that all programs took there.
func statsOf(b *testing.B, n *nstest.Net) (runs uint64, took time.Duration) {
	b.Helper()
	for name, at := range map[string]ebpf.AttachType{"h1": ebpf.AttachTCXEgress, "h2": ebpf.AttachTCXIngress} {
		index := n.Index(name, "eth0")
		in(b, n, name, func() error {
			there, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: at})
			if err != nil {
				return err
			}
			for i, p := range there.Programs {
				prog, err := ebpf.NewProgramFromID(p.ID)
				if err != nil {
					return err
				}
				s, err := prog.Stats()
				prog.Close()
				if err != nil {
					return err
				}
				if took += s.Runtime; i == 0 {
					runs += s.RunCount
				}
			}
			return nil
		})
	}
	return runs, took
}
