// SPDX-License-Identifier: Apache-2.0

package explain

import "slices"

// KernelView is what the kernel says of the socket that sends the data, while it lives (TCP_INFO). It is no part of the
// analysis: it stands beside.
type KernelView struct {
	Node         string  `json:"node"`
	Whole        Waiting `json:"whole"`   // since the connection began to send
	Recent       Waiting `json:"recent"`  // while it was sampled
	OverNs       int64   `json:"over_ns"` // how long that was
	Samples      int     `json:"samples"`
	RTTNs        int64   `json:"rtt_ns"` // smoothed, as the sender has it
	LeastRTTNs   int64   `json:"least_rtt_ns"`
	CwndMin      uint32  `json:"cwnd_min"` // segments, of the samples
	CwndMax      uint32  `json:"cwnd_max"`
	MSS          uint32  `json:"segment"`        // bytes
	Resent       uint64  `json:"resent"`         // segments
	Lost         uint32  `json:"lost_now"`       // segments that the sender takes for lost
	NotSent      uint32  `json:"not_sent_bytes"` // that wait in the socket
	DeliveredBps uint64  `json:"delivered_bps"`  // the newest estimate of the rate
	AppLimited   bool    `json:"app_limited"`    // that estimate is of a time in which the application had too little to send
}

// Waiting is how long a sender was busy, and how much of that it waited for a window or for room in its own buffer, ns.
type Waiting struct {
	BusyNs   int64 `json:"busy_ns"`
	WindowNs int64 `json:"window_ns"`
	BufferNs int64 `json:"send_buffer_ns"`
}

// ByBuffer reports whether the sending socket's own buffer held it for much of the time. No packet shows that.
func (k *KernelView) ByBuffer() bool {
	return float64(k.Whole.BufferNs) > fewRecovery*float64(k.Whole.BusyNs)
}

// Names are the addresses that the flow of the answer has on its way, as its sender sees it.
func (a *Analyzer) names(dir direction) (list []Flow) {
	for f, d := range a.members.names {
		if d == dir {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(x, y Flow) int {
		if x.Text() < y.Text() {
			return -1
		}
		return 1
	})
	return list
}
