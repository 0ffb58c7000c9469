// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// How long a question waits for what nodes say now. Its rows are there already: this only explains them.
const (
	AllNodes = 2 * time.Second // all its nodes together
	OneNode  = time.Second     // so that one that hangs leaves time for others
)

// sideBySide is how many nodes are asked at a time.
const sideBySide = 8

// Silent are the nodes of which an answer does not have what they say now.
type Silent struct {
	NoAnswer []string // did not answer within OneNode, or hang since an earlier question
	NoTime   []string // AllNodes was over before they had answered
}

// Any reports whether there are such nodes.
func (s Silent) Any() bool { return len(s.NoAnswer)+len(s.NoTime) > 0 }

// asker asks nodes for one question.
type asker struct {
	ctx    context.Context // of the question
	left   time.Duration   // of AllNodes
	lock   sync.Mutex
	silent Silent
}

func newAsker(ctx context.Context) *asker { return &asker{ctx: ctx, left: AllNodes} }

// note adds a node to a list of a.silent. Whoever asked and is gone has no use for that, and it says nothing of the node.
func (a *asker) note(list *[]string, name string) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.ctx.Err() == nil && !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// isSilent reports whether a node has let the question wait already.
func (a *asker) isSilent(name string) bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return slices.Contains(a.silent.NoAnswer, name)
}

// said is what a node says.
type said[T any] struct {
	is       T
	ok       bool
	panicked any
}

// askAll looks at nodes side by side, and waits for what they say as long as the question may.
func askAll[T any](a *asker, nodes []*domain.Node, look func(topo.NodeSpec) (T, error)) []said[T] {
	list := make([]said[T], len(nodes))
	began := time.Now()
	ctx, cancel := context.WithTimeout(a.ctx, a.left)
	defer cancel()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(sideBySide, len(nodes)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(nodes); i = int(next.Add(1)) - 1 {
				list[i] = ask(ctx, a, nodes[i], look)
			}
		})
	}
	workers.Wait()
	a.left -= time.Since(began)
	for i := range list {
		if list[i].panicked != nil { // whoever asks guards itself
			panic(list[i].panicked)
		}
	}
	return list
}

func ask[T any](ctx context.Context, a *asker, node *domain.Node, look func(topo.NodeSpec) (T, error)) (nothing said[T]) {
	switch {
	case a.isSilent(node.Name):
		return nothing
	case ctx.Err() != nil:
		a.note(&a.silent.NoTime, node.Name)
		return nothing
	}
	spec := topo.SpecOf(*node)
	back, hangs := running.begin(spec)
	if hangs {
		a.note(&a.silent.NoAnswer, node.Name)
		return nothing
	}
	answered := make(chan said[T], 1)
	go func() {
		defer back()
		s := said[T]{}
		defer func() {
			s.panicked = recover()
			answered <- s
		}()
		is, err := look(spec)
		s = said[T]{is: is, ok: err == nil}
	}()
	patience := time.NewTimer(OneNode)
	defer patience.Stop()
	select {
	case s := <-answered:
		return s
	case <-patience.C:
		a.note(&a.silent.NoAnswer, node.Name)
	case <-ctx.Done():
		a.note(&a.silent.NoTime, node.Name)
	}
	return nothing
}

// running are the looks of all questions that are not back. A thread that hangs in the kernel cannot be ended: each
// question would leave one more there.
var running = looks{began: make(map[*topo.NodeSpec]time.Time)}

type looks struct {
	lock  sync.Mutex
	began map[*topo.NodeSpec]time.Time
}

// begin is told before a look at a node begins, and back when it is over. hangs: an earlier one is not back, so that
// this one must not begin.
func (l *looks) begin(spec topo.NodeSpec) (back func(), hangs bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for of, began := range l.began {
		if *of == spec && time.Since(began) >= OneNode {
			return nil, true
		}
	}
	of := &spec
	l.began[of] = time.Now()
	return func() {
		l.lock.Lock()
		defer l.lock.Unlock()
		delete(l.began, of)
	}, false
}
