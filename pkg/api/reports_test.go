// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/sink/sinktest"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// TestValues: /values has the rows as they are, those that are asked for.
func TestValues(t *testing.T) {
	t.Parallel()
	var l sinktest.Log
	s, address := newServer(t, &l)
	w := sinktest.NewWorld(t, s).Start(0)
	w.Feed(20)
	_, text := servers.Get(t, address+"/values")
	rows := w.Rows(time.Time{})
	s.mu.Lock()
	taken := float64(s.taken.UnixNano())
	s.mu.Unlock()
	if diff := cmp.Diff(sinktest.WantValues(t, rows, taken), sinktest.Plain(t, text)); diff != "" {
		t.Error(diff)
	}
	_, text = servers.Get(t, address+"/values?metric=link_utilization,flow_path")
	n := 0
	for _, r := range rows {
		if r.Metric == metrics.LinkUtilization || r.Metric == metrics.FlowPath {
			n++
		}
	}
	if got := strings.Count(text, "\n"); got != n || strings.Contains(text, "queue") {
		t.Errorf("%d of %d: %s", got, n, text)
	}
	if code, _ := servers.Get(t, address+"/values?metric=x"); code != 400 {
		t.Errorf("code %d", code)
	}
	if code, text := servers.Get(t, address+"/"); code != 200 || !strings.Contains(text, "/events") {
		t.Errorf("code %d, %s", code, text)
	}
	if code, _ := servers.Get(t, address+"/other"); code != 404 {
		t.Errorf("code %d", code)
	}
}
