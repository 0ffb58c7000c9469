// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"net/netip"
	"time"

	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/answer/placenow"
)

// How often a socket is looked at for a KernelView, and how long after each other.
const (
	socketSamples = 5
	socketPause   = 40 * time.Millisecond
)

// KernelView is what the kernel says of the socket of a node that sends, under any of these names; nil: there is none any
// more, or nobody can ask.
func KernelView(ctx context.Context, l *placenow.Links, node string, names []explain.Flow) *explain.KernelView {
	if l == nil || node == "" {
		return nil
	}
	var ends [][2]netip.AddrPort
	for _, f := range names {
		local, err1 := netip.ParseAddr(f.Src.Addr)
		remote, err2 := netip.ParseAddr(f.Dst.Addr)
		if err1 == nil && err2 == nil {
			ends = append(ends, [2]netip.AddrPort{netip.AddrPortFrom(local.Unmap(), uint16(f.Src.Port)), netip.AddrPortFrom(remote.Unmap(), uint16(f.Dst.Port))})
		}
	}
	first := l.TCPSocketOf(node, ends)
	if first == nil {
		return nil
	}
	v := &explain.KernelView{Node: node, Samples: 1, CwndMin: first.Snd_cwnd, CwndMax: first.Snd_cwnd}
	last := first
	for v.Samples < socketSamples {
		select {
		case <-ctx.Done():
			return v
		case <-time.After(socketPause):
		}
		now := l.TCPSocketOf(node, ends)
		if now == nil { // it was closed meanwhile
			break
		}
		last = now
		v.Samples++
		v.CwndMin, v.CwndMax = min(v.CwndMin, now.Snd_cwnd), max(v.CwndMax, now.Snd_cwnd)
	}
	const us = int64(time.Microsecond)
	waited := func(i *placenow.TCPSocket) explain.Waiting {
		return explain.Waiting{BusyNs: int64(i.Busy_time) * us, WindowNs: int64(i.Rwnd_limited) * us, BufferNs: int64(i.Sndbuf_limited) * us}
	}
	before := waited(first)
	v.Whole = waited(last)
	v.Recent = explain.Waiting{BusyNs: v.Whole.BusyNs - before.BusyNs, WindowNs: v.Whole.WindowNs - before.WindowNs, BufferNs: v.Whole.BufferNs - before.BufferNs}
	v.OverNs = int64(last.At.Sub(first.At))
	v.RTTNs, v.LeastRTTNs = int64(last.Rtt)*us, int64(last.Min_rtt)*us
	v.MSS, v.Resent, v.Lost, v.NotSent = last.Snd_mss, uint64(last.Total_retrans), last.Lost, last.Notsent_bytes
	v.DeliveredBps, v.AppLimited = last.Delivery_rate*8, last.Delivery_rate_app_limited&1 != 0
	return v
}

// HashesAddresses reports whether a node now chooses among equal routes by addresses alone: all flows between two hosts
// go by one then.
func (s *Sources) HashesAddresses(ctx context.Context, node string) bool {
	return s.links(ctx).Setting(node, "ipv4/fib_multipath_hash_policy") == "0"
}
