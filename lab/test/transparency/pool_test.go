// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

/*
 * Loading radar's programs takes a second (half a minute in an emulated machine), so
 * cases with equal options join a domain that stands ready, one after the other, and
 * leave it again. Case.Fresh has one of its own.
 */
var pool struct {
	sync.Mutex
	t     testing.TB // of all cases: a domain lives as long
	ready map[string][]*domain
}

// start attaches radar to the nodes that the case has named, until the run ends.
func (w *World) start(c *Case, mode Mode) *domain {
	w.T.Helper()
	args := append([]string{"--slots", "64K", "--carry", string(mode)}, c.Flags...)
	key := strings.Join(args, " ")
	nodes := make([]string, len(w.attached))
	for i, n := range w.attached {
		nodes[i] = w.Spec(n)
	}
	if c.Fresh || strings.Contains(key, "--role") {
		d := newDomain(w.T)
		d.run(w.T, slices.Concat([]string{"attach", "-d"}, args, nodes)...)
		return d
	}
	d := ready(key)
	if d == nil {
		d = newDomain(pool.t)
		d.run(w.T, slices.Concat([]string{"attach", "-d"}, args, []string{keeper()})...)
	}
	d.before = d.status(w.T)
	d.run(w.T, slices.Concat([]string{"attach", "-d"}, args, nodes)...)
	w.T.Cleanup(func() {
		if _, err := d.try(append([]string{"detach", "--no-drain"}, w.attached...)...); err != nil {
			w.T.Error(err)
		} else if !w.T.Failed() {
			pool.Lock()
			pool.ready[key] = append(pool.ready[key], d)
			pool.Unlock()
		}
	})
	return d
}

// newDomain is detached when t ends.
func newDomain(t testing.TB) *domain {
	d := &domain{name: nstest.Unique(), state: t.TempDir(), bin: radarbin.Path(t), before: new(Status)}
	nstest.Cleanup(t, func() {
		if _, err := d.try("detach", "--no-drain"); err != nil {
			t.Error(err)
		}
	})
	return d
}

// ready takes a domain out of the pool.
func ready(key string) *domain {
	pool.Lock()
	defer pool.Unlock()
	list := pool.ready[key]
	if len(list) == 0 {
		return nil
	}
	pool.ready[key] = list[:len(list)-1]
	return list[len(list)-1]
}

// keeper makes a node that nobody uses, which keeps a domain alive between cases.
func keeper() string {
	w := &World{Net: nstest.New(pool.t), T: pool.t}
	w.Nodes("keeper")
	w.Veth("keeper", "eth0", "keeper", "eth1")
	return w.Spec("keeper")
}

// since takes off what was counted before.
func (s *Status) since(before *Status) error {
	s.Totals.Seen -= before.Totals.Seen
	s.Totals.NotMeasured -= before.Totals.NotMeasured
	s.Totals.Unread -= before.Totals.Unread
	for i, c := range s.Counters {
		for _, b := range before.Counters {
			if b.Name == c.Name {
				s.Counters[i].Value -= b.Value
			}
		}
		if s.Counters[i].Value < 0 {
			return fmt.Errorf("counter %s went down", c.Name)
		}
	}
	return nil
}
