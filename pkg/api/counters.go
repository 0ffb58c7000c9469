// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/prometheus/client_golang/prometheus"

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("radar_"+name, help, labels, nil)
}

var (
	hostsDesc   = desc("http_other_host_total", "Requests that were refused because their Host header names another server.")
	takenDesc   = desc("http_taken_total", "Connections, listeners and answers that were ended to make room for another client.", "what")
	refusedDesc = desc("http_refused_total", "Connections, listeners and answers for which there was no room.", "what")
)

// Describe implements prometheus.Collector: a server tells of its limits.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	ch <- hostsDesc
	ch <- takenDesc
	ch <- refusedDesc
}

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	send(hostsDesc, s.OtherHosts())
	for _, p := range s.Places() {
		send(takenDesc, p.Taken, p.What)
		send(refusedDesc, p.Refused, p.What)
	}
}
