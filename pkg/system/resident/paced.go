// SPDX-License-Identifier: Apache-2.0

package resident

import "time"

// Paced lets a loop follow events that others can cause without end, such as whoever controls a node. The first one is followed at
// once; those that come then wait, all together, for Gap at least. What is done for them takes Burst of a core's time at once,
// and one part in Share of it in the long run. It is for one goroutine.
type Paced struct {
	Events <-chan struct{} // nil: there are none
	Gap    time.Duration
	Burst  time.Duration
	Share  int

	waits bool          // an event waits for its time
	wake  chan struct{} // it has come
	next  time.Time
	spent time.Duration
	at    time.Time // of which spent is known
}

// C has something when IsDue is to be asked.
func (p *Paced) C() <-chan struct{} {
	if p.waits {
		return p.wake
	}
	return p.Events
}

// IsDue reports, after something came from C, whether what it stands for is to be done now. Else C has something when it is.
func (p *Paced) IsDue(now time.Time) bool {
	if !now.Before(p.next) { // something else may have been done while it waited
		p.waits = false
		return true
	}
	if p.wake == nil {
		p.wake = make(chan struct{}, 1)
	}
	p.waits = true
	time.AfterFunc(p.next.Sub(now), func() { p.wake <- struct{}{} })
	return false
}

// Did counts what was done, for an event or not.
func (p *Paced) Did(began, ended time.Time) {
	p.spent = max(0, p.spent-began.Sub(p.at)/time.Duration(p.Share)) + ended.Sub(began)
	p.at = began
	p.next = ended.Add(max(p.Gap, (p.spent-p.Burst)*time.Duration(p.Share)))
}
