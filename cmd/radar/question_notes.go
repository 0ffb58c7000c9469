// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/agent"
	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
)

// notef says something about an answer on standard error, with -f only once.
func (a *app) notef(format string, args ...any) {
	if a.view != nil {
		if a.view.said[format] {
			return
		}
		a.view.said[format] = true
	}
	fmt.Fprintf(a.stderr, "radar: "+format+"\n", args...)
}

// noteOnce says text on standard error, with -f once for each key.
func (a *app) noteOnce(key, text string) {
	if a.view != nil {
		if a.view.said[key] {
			return
		}
		a.view.said[key] = true
	}
	fmt.Fprintf(a.stderr, "radar: %s\n", text)
}

// noteDomain says what every answer lacks that the domain gives now: what is not
// recorded because no agent runs, what the agent cannot do, and packets that could not be
// measured.
func (a *app) noteDomain() {
	err := a.withHandle(func(h *datapath.Handle) error {
		process, err := agent.Find(h.Domain.Name)
		if err != nil {
			return err
		}
		lease, err := newLeaseView(h)
		if err != nil {
			return err
		}
		if process.PID == 0 {
			a.notef("%s", noAgentText(lease, h.Domain.Name))
		} else if err := a.noteTroubles(h.Domain.Name, process); err != nil {
			return err
		}
		counters, err := h.Counters()
		if err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
		a.noteNotMeasured(counters)
		return nil
	})
	a.warn(err)
}

// warn shows an error that leaves the answer as it is. A domain that was detached
// meanwhile is no such error.
func (a *app) warn(err error) {
	if err != nil && !errors.Is(err, domain.ErrNotAttached) {
		a.notef("warning: %v", err)
	}
}

func (a *app) withHandle(do func(*datapath.Handle) error) error {
	h, err := datapath.Open(a.domain)
	if err != nil {
		return err
	}
	defer h.Close()
	return do(h)
}

// unmeant are reasons not to measure that need no note: what the user asked for
// (--watch, --ipv6 off), what noAgentText explains (the lease), and discovery between
// IPv6 neighbours, which goes on for ever.
var unmeant = map[string]bool{"watch": true, "ipv6": true, "lease": true, "neighbour": true}

// causes say what to do about a reason not to measure, where its name does not.
var causes = map[string]string{
	"key_in_flight": "with DF clear (or a TTL below 8) a packet is not measured while an equal one is under way (addresses, ports, IP ID, first bytes of the payload): set DF, or give each packet an IP ID or a payload of its own",
}

// noteNotMeasured counts what could not be measured.
func (a *app) noteNotMeasured(counters []datapath.Counter) {
	const prefix = "not_measured_"
	total, kinds := uint64(0), []string(nil)
	for _, c := range counters {
		kind := strings.TrimPrefix(c.Name, prefix)
		if c.Group != datapath.GroupNotMeasured || c.Value == 0 || unmeant[kind] {
			continue
		}
		total += c.Value
		kinds = append(kinds, kind+" "+decimal(c.Value))
	}
	if total > 0 {
		a.notef("%s not measured (%s): radar status -o wide", packetsWere(total), strings.Join(kinds, ", "))
	}
	for _, c := range counters {
		if cause := causes[strings.TrimPrefix(c.Name, prefix)]; cause != "" && c.Value > 0 {
			a.notef("%s: %s", strings.TrimPrefix(c.Name, prefix), cause)
		}
	}
}

// packetsWere is "1 packet was", "2 packets were".
func packetsWere(n uint64) string {
	if n == 1 {
		return "1 packet was"
	}
	return decimal(n) + " packets were"
}
