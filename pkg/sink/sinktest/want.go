// SPDX-License-Identifier: Apache-2.0

package sinktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// Plain are JSON lines as maps, as text.
func Plain(t testing.TB, text string) (list []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		list = append(list, fmt.Sprint(m))
	}
	return list
}

func WantValues(t testing.TB, rows []metrics.Row, at any) (list []string) {
	t.Helper()
	for i := range rows {
		b, err := json.Marshal(metrics.Namer(OddName).Row(&rows[i]))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		m["kind"], m["snapshot_t_ns"] = "value", at
		list = append(list, fmt.Sprint(m))
	}
	return list
}

// WantEvents are events as a listener should get them.
func WantEvents(t testing.TB, events []metrics.Event, only ...metrics.Metric) (list []string) {
	t.Helper()
	for i := range events {
		if len(only) > 0 && !slices.Contains(only, events[i].Metric) {
			continue
		}
		b, err := json.Marshal(metrics.Namer(OddName).Event(&events[i]))
		if err != nil {
			t.Fatal(err)
		}
		var plain map[string]any
		if err := json.Unmarshal(b, &plain); err != nil {
			t.Fatal(err)
		}
		plain["kind"] = "event"
		list = append(list, fmt.Sprint(plain))
	}
	return list
}
