// SPDX-License-Identifier: Apache-2.0

package measured

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestKeeper: scrapes within the interval are one reading, and one that is stuck brings what is older, not nothing.
func TestKeeper(t *testing.T) {
	var readings atomic.Int32
	release := make(chan struct{})
	k := NewKeeper()
	k.every = time.Hour
	k.from = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		n := readings.Add(1)
		if n == 2 {
			<-release
		}
		name := map[int32]string{1: "first", 2: "second"}[n]
		return []*dto.MetricFamily{{Name: &name}}, nil
	})
	gathered := func() string {
		t.Helper()
		list, err := k.Gather()
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].GetName()
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := k.Gather(); err != nil || len(got) != 1 || got[0].GetName() != "first" {
				t.Error(got, err)
			}
		})
	}
	all.Wait()
	if n := readings.Load(); n != 1 {
		t.Errorf("%d readings for scrapes at one time", n)
	}
	k.every, k.patience[0] = 0, time.Millisecond
	for range 3 { // more than two: none of them holds a place that others need
		if got := gathered(); got != "first" {
			t.Errorf("while a reading is stuck: %s", got)
		}
	}
	if n := readings.Load(); n != 2 || k.Age() == 0 {
		t.Errorf("%d readings, and what is told is %v old", n, k.Age())
	}
	k.every = time.Hour
	close(release)
	k.mu.Lock()
	k.at = time.Now().Add(-2 * time.Hour) // so that the next one waits for it
	k.mu.Unlock()
	nstest.WaitFor(t, "the reading that was stuck", func() bool { return gathered() == "second" })

	first := NewKeeper()
	first.patience[1] = time.Millisecond
	stuck := make(chan struct{})
	first.from = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { <-stuck; return nil, nil })
	if _, err := first.Gather(); !errors.Is(err, ErrNothingYet) {
		t.Error(err)
	}
	close(stuck)
}
