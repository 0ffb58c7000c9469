// SPDX-License-Identifier: Apache-2.0

package dut

// Row is what became of the packets of one size and rate, in one direction, and how long they
// took.
type Row struct {
	Counts
	Delay *Delay `json:"delay,omitempty"`
	// Loopback are the same packets without a device: radar's own error.
	Loopback     *Figures `json:"loopback,omitempty"`
	SubtractedNs int64    `json:"subtracted_ns,omitempty"` // from each of Delay

	standing int64 // Stream.Standing
}

// Counts are what became of packets.
type Counts struct {
	Direction  string  `json:"direction"`
	Size       int     `json:"size"`
	Rate       string  `json:"rate"`     // as it was asked for
	AskedPPS   float64 `json:"rate_pps"` // the same in packets a second
	SentPPS    float64 `json:"sent_pps"` // at which they left
	CamePPS    float64 `json:"came_pps"` // at which the later half of them came
	Sent       int     `json:"sent"`
	Received   int     `json:"received"`
	Lost       int     `json:"lost"`
	Duplicated int     `json:"duplicated"`
	Reordered  int     `json:"reordered"`
	NotSent    int     `json:"not_sent"` // the sender's buffer was full
	Resized    uint64  `json:"resized"`  // came with another length
	Late       uint64  `json:"late"`     // of packets of rows before
}

// KeptRate reports whether packets left about as fast as was asked for.
func (r *Counts) KeptRate() bool { return keptRate(r.SentPPS, r.AskedPPS) }

// keptRate says it of a trial; a single packet has no rate.
func keptRate(sent, asked float64) bool { return sent == 0 || sent >= 0.98*asked }

// rowsOf makes a row of each direction of a trial.
func rowsOf(o *Outcome, rate Rate) (rows []Row) {
	for i := range o.Streams {
		s := &o.Streams[i]
		rows = append(rows, Row{Delay: summarise(s.Delays), standing: s.Standing, Counts: Counts{
			Direction: s.Direction, Size: o.Size, Rate: rate.String(),
			AskedPPS: rate.PPS(o.Size), SentPPS: o.SentPPS, CamePPS: s.CamePPS,
			Sent: s.Sent, Received: s.Received, Lost: s.Lost(), Duplicated: s.Duplicated, Reordered: s.Reordered,
			NotSent: o.Tried - o.Sent, Resized: o.Resized, Late: o.Late,
		}})
	}
	return rows
}

// Setup is what a run was made with.
type Setup struct {
	In       string `json:"in,omitempty"`
	Out      string `json:"out,omitempty"`
	From     string `json:"from"`
	To       string `json:"to"`
	FromMAC  string `json:"from_mac"`
	ToMAC    string `json:"to_mac"`
	Hook     string `json:"hook"`
	Kernel   string `json:"kernel"`
	Complete bool   `json:"complete"` // false: it was interrupted
}

// Report is what a sweep has found.
type Report struct {
	Setup
	Rows []Row `json:"results,omitempty"`
	Fits []Fit `json:"fits,omitempty"`
	// Loopback are rows of the loop-back run, if that is all there was, or as it was before the device's.
	Loopback []Row `json:"loopback,omitempty"`
}

// fit fits lines to rows of the same direction and rate.
func fit(rows []Row) (fits []Fit) {
	type key struct{ direction, rate string }
	var order []key
	groups := make(map[key][]*Row)
	for i := range rows {
		r := &rows[i]
		if r.Delay == nil {
			continue
		}
		k := key{r.Direction, r.Rate}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	for _, k := range order {
		for _, of := range []string{OfMin, OfMedian, OfInterval} {
			if f, ok := fitOf(groups[k], of); ok {
				f.Direction, f.Rate = k.direction, k.rate
				fits = append(fits, f)
			}
		}
	}
	return fits
}

// fitOf fits a line to one figure of rows of several sizes. false: there is none.
func fitOf(rows []*Row, of string) (f Fit, ok bool) {
	var sizes, values []float64
	for _, r := range rows {
		ns := float64(r.Delay.MinNs)
		switch {
		case of == OfMedian:
			ns = float64(r.Delay.P50Ns)
		case of == OfInterval && !r.isSlowed():
			return f, false
		case of == OfInterval:
			ns = 1e9 / r.CamePPS
		}
		sizes, values = append(sizes, float64(r.Size)), append(values, ns)
	}
	f = Fit{Of: of, Sizes: len(sizes)}
	if f.Slope, f.Intercept, ok = fitLine(sizes, values); f.Slope.Value > 0 {
		f.BitRate = 8e9 / f.Slope.Value
	}
	return f, ok
}

// isSlowed reports whether the device let packets out slower than they came to it: then their
// interval is what it takes for one. A device that only loses packets has no queue of them.
func (r *Row) isSlowed() bool {
	return r.Direction != Round && r.CamePPS > 0 && r.CamePPS < 0.9*r.SentPPS && float64(r.standing) > 2*1e9/r.CamePPS
}
