// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/filter"
)

const (
	// compileTime is how long a request waits for its expression at most. CompileNumeric refuses what takes libpcap
	// longer than a second.
	compileTime = 10 * time.Second
	// mostQueued are the expressions of one client that wait or are compiled.
	mostQueued = 16
	// mostKept are those that are kept for one client: what asks again and again has its own among them.
	mostKept = 16
	// mostKeepers are the clients for whom expressions are kept.
	mostKeepers = 32
)

// notCompiled says why there is no filter yet. Who asks again later may get it.
type notCompiled struct{ cause string }

func (e *notCompiled) Error() string { return "the filter expression is not compiled: " + e.cause }

// expressions are the filters of requests. libpcap compiles one at a time, in C, where a deadline does not reach: who
// waits for it waits here, and goes when the time is over. Each client has a queue of its own, and they take turns: who
// asks for many waits behind itself, and who comes waits for one expression of each of the others.
type expressions struct {
	compile  func(string) (*filter.Expr, error)
	patience time.Duration

	mu      sync.Mutex
	asking  map[api.Client]*queue // of those with a job
	keepers []*keeper             // who asked last stands last
	turns   uint64                // so many were given
	busy    bool
}

// queue has what a client waits for, in order. The first may be compiled at the moment.
type queue struct {
	jobs []*job
	turn uint64 // the lowest is next
}

// job is an expression that is to be compiled.
type job struct {
	text    string
	waiting int // requests
	begun   bool
	done    chan struct{} // closed when compiled is there
	compiled
}

// compiled is what became of a text. It stays true: no name in it means something else later.
type compiled struct {
	expr *filter.Expr
	err  error
}

// keeper has what a client has asked for. Two clients may keep the same: none loses it by what another asks.
type keeper struct {
	client api.Client
	list   []kept // what was asked last stands last
}

type kept struct {
	text string
	compiled
}

func newExpressions() *expressions {
	return &expressions{compile: filter.CompileNumeric, patience: compileTime, asking: make(map[api.Client]*queue)}
}

// of compiles a text for a client, or knows it already. *notCompiled: too many are before it, or ctx has ended.
func (x *expressions) of(ctx context.Context, client api.Client, text string) (*filter.Expr, error) {
	ctx, stop := context.WithTimeout(ctx, x.patience)
	defer stop()
	x.mu.Lock()
	if c, ok := x.known(text); ok {
		x.keep(client, text, c)
		x.mu.Unlock()
		return c.expr, c.err
	}
	j, err := x.enqueue(client, text)
	x.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-j.done:
		return j.expr, j.err
	case <-ctx.Done():
		return x.leave(client, j)
	}
}

// enqueue gives the client a job, or lets him wait for the one that he has of this text.
func (x *expressions) enqueue(client api.Client, text string) (*job, error) {
	q := x.asking[client]
	if q == nil {
		x.turns++
		q = &queue{turn: x.turns}
		x.asking[client] = q
	}
	if at := slices.IndexFunc(q.jobs, func(j *job) bool { return j.text == text }); at >= 0 {
		q.jobs[at].waiting++
		return q.jobs[at], nil
	}
	if len(q.jobs) >= mostQueued {
		return nil, &notCompiled{fmt.Sprintf("%d others of the same client are before it, as many as may wait", len(q.jobs))}
	}
	j := &job{text: text, waiting: 1, done: make(chan struct{})}
	q.jobs = append(q.jobs, j)
	if !x.busy {
		x.busy = true
		go x.work()
	}
	return j, nil
}

// leave is for who does not wait any more: it says for what the request has waited.
func (x *expressions) leave(client api.Client, j *job) (*filter.Expr, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-j.done:
		return j.expr, j.err
	default:
	}
	j.waiting--
	if j.begun {
		return nil, &notCompiled{"it takes too long"}
	}
	err := &notCompiled{fmt.Sprintf("its turn has not come, %d of the same client and those of %d others are before it", slices.Index(x.asking[client].jobs, j), len(x.asking)-1)}
	if j.waiting == 0 {
		x.remove(client, j)
	}
	return nil, err
}

// remove takes a job out of its queue.
func (x *expressions) remove(client api.Client, j *job) {
	q := x.asking[client]
	q.jobs = slices.DeleteFunc(q.jobs, func(other *job) bool { return other == j })
	if len(q.jobs) == 0 {
		delete(x.asking, client)
	}
}

// work compiles what is asked for, until there is nothing.
func (x *expressions) work() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		client, j := x.next()
		if j == nil {
			x.busy = false
			return
		}
		c, ok := x.known(j.text) // another client may have asked for the same
		if !ok {
			x.mu.Unlock()
			c.expr, c.err = x.compile(j.text)
			x.mu.Lock()
		}
		x.keep(client, j.text, c)
		j.compiled = c
		x.remove(client, j)
		close(j.done)
	}
}

// next is the job whose turn it is, nil: there is none.
func (x *expressions) next() (next api.Client, j *job) {
	var first *queue
	for client, q := range x.asking {
		if first == nil || q.turn < first.turn {
			next, first = client, q
		}
	}
	if first == nil {
		return next, nil
	}
	x.turns++
	first.turn = x.turns
	j = first.jobs[0]
	j.begun = true
	return next, j
}

// known is what became of a text that any client has asked for.
func (x *expressions) known(text string) (compiled, bool) {
	for _, k := range x.keepers {
		for i := range k.list {
			if k.list[i].text == text {
				return k.list[i].compiled, true
			}
		}
	}
	return compiled{}, false
}

// keep keeps a text for a client: in the place of the one that he has not asked for longest.
func (x *expressions) keep(client api.Client, text string, c compiled) {
	k := &keeper{client: client}
	if at := slices.IndexFunc(x.keepers, func(k *keeper) bool { return k.client == client }); at >= 0 {
		k = x.keepers[at]
		x.keepers = slices.Delete(x.keepers, at, at+1)
	}
	if len(x.keepers) >= mostKeepers {
		x.keepers = slices.Delete(x.keepers, 0, 1)
	}
	x.keepers = append(x.keepers, k)
	k.list = slices.DeleteFunc(k.list, func(old kept) bool { return old.text == text })
	if len(k.list) >= mostKept {
		k.list = slices.Delete(k.list, 0, 1)
	}
	k.list = append(k.list, kept{text, c})
}
