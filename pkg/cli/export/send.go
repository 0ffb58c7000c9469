// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/send"
)

// collectorView is what became of the reports for one collector.
type collectorView struct {
	Collector string `json:"collector"`
	Address   string `json:"address"`
	send.Counts
}

// sender sends to one collector.
type sender struct {
	*send.Sender
	name string // as the user wrote it
}

func (s *sender) view() collectorView {
	return collectorView{Collector: s.name, Address: s.To.String(), Counts: s.Counts()}
}

// newSenders opens a socket for each collector.
func newSenders(ctx context.Context, collectors []string) (list []*sender, err error) {
	defer func() {
		if err != nil {
			closeSenders(list)
		}
	}()
	for _, text := range collectors {
		to, err := kit.ResolveCollector(ctx, text)
		if err != nil {
			return list, err
		}
		for _, other := range list {
			if other.To == to {
				return list, fault.Usage.Errorf("--collector %s: twice (%v)", text, to)
			}
		}
		socket, err := send.Dial(to)
		if err != nil {
			return list, fmt.Errorf("collector %s: %w", text, err)
		}
		list = append(list, &sender{socket, text})
	}
	return list, nil
}

func closeSenders(list []*sender) {
	for _, s := range list {
		s.Close()
	}
}

// isOwn says whether a packet is for the collector, or is ICMP's answer of its machine to such a
// packet: a report about those would beget the next one.
func (s *sender) isOwn(r *record.Record) bool {
	to := s.To.Addr().WithZone("").String()
	if r.Proto == "udp" {
		return r.Dport != nil && *r.Dport == int(s.To.Port()) && r.Dst == to
	}
	isError := (r.Proto == "icmp" || r.Proto == "icmpv6") && r.ICMPID == nil
	return isError && r.Src == to && r.Dst == s.From.Addr().WithZone("").String()
}

// pacer spaces reports; the zero value does not.
type pacer struct {
	gap  time.Duration
	next time.Time
}

// newPacer makes one for so many a second; 0: no limit.
func newPacer(rate kit.Count) pacer {
	if rate == 0 {
		return pacer{}
	}
	return pacer{gap: time.Second / time.Duration(rate)}
}

// leastWait is what a sleep is worth: reports that are due sooner go together.
const leastWait = time.Millisecond

// wait waits until the next report may go. It says whether that may; not if ctx ended before.
func (p *pacer) wait(ctx context.Context) bool {
	if p.gap == 0 {
		return true
	}
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	if ahead := p.next.Sub(now); ahead >= leastWait && !kit.Wait(ctx, ahead) {
		return false
	}
	p.next = p.next.Add(p.gap)
	return true
}
