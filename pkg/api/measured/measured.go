// SPDX-License-Identifier: Apache-2.0

// Package measured is radar's own measurement for Prometheus: packets, bytes, losses, latencies and cost of the
// domains of a machine, by link, node and queue. No label is of a packet or a flow (docs/design/0035-api.md).
package measured

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
)

// mostSeries is how many series of one name and domain there are: a domain may have thousands of nodes, and places of
// losses. Those with most packets come first.
const mostSeries = 2048

// schema of native histograms: buckets grow by the eighth root of two.
const schema = 3

// Collector gives Prometheus what was measured, since each domain was attached.
type Collector struct{}

// Describe implements prometheus.Collector: without descriptions it is unchecked, for domains come and go.
func (Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (Collector) Collect(ch chan<- prometheus.Metric) {
	names, err := answer.Attached()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(upDesc, err)
		return
	}
	for _, name := range names {
		s := &series{ch: ch, domain: name}
		if err := s.collect(); err != nil && !errors.Is(err, system.ErrNotAttached) {
			// The others are told all the same.
			s.value(errorDesc, prometheus.GaugeValue, 1)
		}
		s.value(leftOutDesc, prometheus.GaugeValue, float64(s.leftOut))
	}
}

// series are those of one domain.
type series struct {
	ch      chan<- prometheus.Metric
	domain  string
	leftOut int
}

func (s *series) value(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, kind, value, append([]string{s.domain}, labels...)...)
}

func (s *series) count(d *prometheus.Desc, n uint64, labels ...string) {
	s.value(d, prometheus.CounterValue, float64(n), labels...)
}

// first calls fn for so many rows as there is room for.
func first[T any](s *series, rows []T, fn func(*T)) {
	if len(rows) > mostSeries {
		s.leftOut += len(rows) - mostSeries
		rows = rows[:mostSeries]
	}
	for i := range rows {
		fn(&rows[i])
	}
}

func (s *series) collect() error {
	handle, err := datapath.Open(s.domain)
	if err != nil {
		return err
	}
	defer handle.Close()
	// Ends that may still be withdrawn do not count: counters must not go back.
	reader, _, err := agent.OpenReader(s.domain)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := reader.Collector.Poll(); err != nil {
		return err
	}
	counters, err := handle.Counters()
	if err != nil {
		return err
	}
	s.totals(agent.NewTotals(counters, reader.Collector.Totals()), counters)
	sums := reader.Collector.Aggregates()
	s.traffic(sums, reader)
	s.losses(sums, reader)
	s.latencies(sums, reader)
	return s.cost(handle)
}

func (s *series) totals(t agent.Totals, counters []datapath.Counter) {
	for outcome, n := range map[string]uint64{"delivered": t.Delivered, "left": t.Left, "lost": t.Lost, "expired": t.Expired, "ignored": t.Ignored} {
		s.count(packetsDesc, n, outcome)
	}
	s.count(bytesDesc, t.Bytes)
	s.value(inFlightDesc, prometheus.GaugeValue, float64(t.InFlight))
	s.count(unreadDesc, t.Unread)
	for _, c := range counters {
		if reason, is := strings.CutPrefix(c.Name, "not_measured_"); is && c.Group == datapath.GroupNotMeasured {
			s.count(notMeasuredDesc, c.Value, reason)
		}
	}
}

func (s *series) traffic(sums *aggregate.Aggregates, r *agent.Reader) {
	for by, descs := range map[aggregate.By][2]*prometheus.Desc{
		aggregate.ByNode: {nodePacketsDesc, nodeBytesDesc}, aggregate.ByLink: {linkPacketsDesc, linkBytesDesc},
	} {
		rows := sums.Throughput(by, r.Decoder, 0, 1)
		if len(rows) == 0 {
			continue
		}
		first(s, rows[1:], func(row *aggregate.ThroughputRow) { // the first is of all
			labels := labelsOf(by, row.Name)
			s.count(descs[0], row.Packets, labels...)
			s.count(descs[1], row.Bytes, labels...)
		})
	}
}

// labelsOf are the labels of a row: of a link its ends, of a queue node and port.
func labelsOf(by aggregate.By, name string) []string {
	switch by {
	case aggregate.ByLink:
		from, to, _ := strings.Cut(name, " > ")
		return []string{from, to}
	case aggregate.ByQueue:
		i := strings.LastIndex(name, "/")
		if i < 0 {
			return []string{name, ""}
		}
		return []string{name[:i], name[i+1:]}
	}
	return []string{name}
}

func (s *series) losses(sums *aggregate.Aggregates, r *agent.Reader) {
	counts := answer.NewCounts(sums, r.Decoder)
	for d, local := range map[*prometheus.Desc]bool{lostDesc: false, droppedDesc: true} {
		byLabels := make(map[[4]string]uint64) // rows differ by more than these
		rows := counts.Losses(local).List
		first(s, rows, func(row *answer.LossRow) {
			reason := row.Reason
			if reason == "" {
				reason = row.Function
			}
			byLabels[[4]string{row.Node, row.Port, string(row.At), reason}] += row.Packets
		})
		for labels, n := range byLabels {
			s.count(d, n, labels[:]...)
		}
	}
}

func (s *series) latencies(sums *aggregate.Aggregates, r *agent.Reader) {
	for by, d := range map[aggregate.By]*prometheus.Desc{
		aggregate.ByNode: nodeLatencyDesc, aggregate.ByLink: linkLatencyDesc, aggregate.ByQueue: queueLatencyDesc,
	} {
		first(s, sums.Histograms(by, r.Decoder), func(h *aggregate.Histogram) {
			s.histogram(d, h, r.Domain.Created, labelsOf(by, h.Name)...)
		})
	}
	if all := sums.Histograms(aggregate.ByEndToEnd, r.Decoder); len(all) > 0 {
		s.histogram(endToEndDesc, &all[0], r.Domain.Created)
	}
}

// histogram sends a native histogram. A bucket of radar is at most 1/64 wide, so that its middle says in which one of
// Prometheus it is.
func (s *series) histogram(d *prometheus.Desc, h *aggregate.Histogram, since time.Time, labels ...string) {
	buckets, zero := make(map[int]int64), uint64(0)
	for _, b := range h.Buckets {
		seconds := (float64(b.GeNs) + float64(b.LeNs)) / 2 / 1e9
		if seconds == 0 {
			zero += b.Count
			continue
		}
		buckets[int(math.Ceil(math.Log2(seconds)*(1<<schema)))] += int64(b.Count)
	}
	m, err := prometheus.NewConstNativeHistogram(d, h.Count, h.SumNs/1e9, buckets, nil, zero, schema, 1e-10, since, append([]string{s.domain}, labels...)...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	s.ch <- m
}

func (s *series) cost(h *datapath.Handle) error {
	process, err := agent.Find(s.domain)
	if err != nil {
		return err
	}
	up := 0.0
	if process.PID != 0 {
		up = 1
		if cost, err := process.Cost(); err == nil { // else it has just ended
			s.value(cpuDesc, prometheus.CounterValue, cost.CPU.Seconds())
			s.value(memoryDesc, prometheus.GaugeValue, float64(cost.Memory))
		}
	}
	s.value(upDesc, prometheus.GaugeValue, up)
	if !datapath.AreMeasured() {
		return nil // looking at all programs of the machine costs more than all else here
	}
	hooks, err := h.HookCosts()
	if err != nil {
		return nil // it takes CAP_SYS_ADMIN, which nothing else here does
	}
	for i := range hooks {
		s.count(runsDesc, hooks[i].Runs, hooks[i].Hook)
		s.value(runTimeDesc, prometheus.CounterValue, hooks[i].Time.Seconds(), hooks[i].Hook)
	}
	return nil
}
