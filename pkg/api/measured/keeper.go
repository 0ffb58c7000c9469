// SPDX-License-Identifier: Apache-2.0

package measured

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	// Every is how old what is told may be before it is worked out anew: each time reads all domains.
	Every = 5 * time.Second
	// patience is how long a scrape waits for that, where there is something older to tell. Prometheus gives up after 10 s.
	patience = 3 * time.Second
	// mostPatience is how long the first one waits.
	mostPatience = 20 * time.Second
)

// ErrNothingYet: the first reading of all domains takes longer than a scrape may.
var ErrNothingYet = errors.New("the domains are still being read for the first time: ask again")

// Keeper gathers from another Gatherer at most so often, one at a time, and tells what it has: scrapes that come close
// to each other, or while a reading takes its time, get the same. It is a Gatherer.
type Keeper struct {
	from     prometheus.Gatherer
	every    time.Duration
	patience [2]time.Duration // with something older, and without

	mu    sync.Mutex
	kept  []*dto.MetricFamily
	err   error
	at    time.Time     // of the beginning of that reading; zero: there is none
	doing chan struct{} // closed when the reading under way ends; nil: there is none
}

// NewKeeper returns one for domains, and for others that are read with them.
func NewKeeper(others ...prometheus.Collector) *Keeper {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append([]prometheus.Collector{Collector{}}, others...)...)
	return &Keeper{from: registry, every: Every, patience: [2]time.Duration{patience, mostPatience}}
}

// Gather implements prometheus.Gatherer.
func (k *Keeper) Gather() ([]*dto.MetricFamily, error) {
	doing, wait := k.begin()
	if doing != nil {
		select {
		case <-doing:
		case <-time.After(wait):
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at.IsZero() {
		return nil, ErrNothingYet
	}
	return k.kept, k.err
}

// begin starts a reading, if what is kept is too old and none is under way. doing is what to wait for; nil: nothing.
func (k *Keeper) begin() (doing chan struct{}, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.at.IsZero() && time.Since(k.at) < k.every {
		return nil, 0
	}
	if k.doing == nil {
		k.doing = make(chan struct{})
		go k.read(k.doing)
	}
	if k.at.IsZero() {
		return k.doing, k.patience[1]
	}
	return k.doing, k.patience[0]
}

func (k *Keeper) read(done chan struct{}) {
	at := time.Now()
	families, err := k.from.Gather()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept, k.err, k.at, k.doing = families, err, at, nil
	close(done)
}

// Age is how old what was told last is.
func (k *Keeper) Age() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at.IsZero() {
		return 0
	}
	return time.Since(k.at)
}
