// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/api"
)

const (
	// goodFor is how long an answer is given to all who ask the same.
	goodFor = time.Second
	// atOnce is how many questions are answered at a time: each may read a whole ring.
	atOnce = 2
	// workTime is how long one is worked at, and waited for, with all that comes before: there is time left to say that
	// it took too long.
	workTime = api.AnswerTime - 5*time.Second
)

// within gives each request that reads one deadline, which begins with it: whatever it waits for, one after the other,
// it is answered before the server cuts the connection (api.AnswerTime).
func within(limit time.Duration, handle http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead { // what changes something is not left half done
			handle.ServeHTTP(w, r)
			return
		}
		ctx, stop := context.WithTimeout(r.Context(), limit)
		defer stop()
		handle.ServeHTTP(w, r.WithContext(ctx))
	})
}

// later is an error for who asked: it is no fault of his, and the same may be answered later.
func later(cause string) error {
	return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(cause), http.Header{"Retry-After": {"1"}})
}

// answers are those that were given in the last second. Whoever asks the same meanwhile gets the same.
type answers struct {
	gate chan struct{}

	mu   sync.Mutex
	list map[string]*given
}

// given is an answer, once done is closed.
type given struct {
	done    chan struct{}
	left    chan struct{} // closed if all who wanted it have gone before it was begun
	waiting int           // who want it
	begun   bool
	until   time.Time // zero while it is worked out
	value   any
	err     error
}

func newAnswers() *answers {
	return &answers{gate: make(chan struct{}, atOnce), list: make(map[string]*given)}
}

// once returns what work returns, or has returned less than a second ago for the same key. It waits until ctx ends.
func once[T any](ctx context.Context, a *answers, key string, work func(context.Context) (T, error)) (T, error) {
	var zero T
	g, mine := a.find(key)
	if mine {
		go func() { // it is for all who ask; the first may go before it is there
			select {
			case a.gate <- struct{}{}:
			case <-g.left:
				return
			}
			defer func() { <-a.gate }()
			if !a.begin(g) {
				return
			}
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), workTime)
			defer stop()
			value, err := guarded(ctx, work)
			a.mu.Lock()
			defer a.mu.Unlock()
			g.value, g.err, g.until = value, err, time.Now().Add(goodFor)
			close(g.done)
		}()
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		if begun := a.leave(key, g); !begun && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return zero, later(fmt.Sprintf("no answer in time: it was not begun, since %d other questions are being answered: ask again later", atOnce))
		}
		return zero, tooLong(ctx.Err())
	}
	if g.err != nil {
		return zero, tooLong(g.err)
	}
	return g.value.(T), nil
}

// tooLong is an error for who asked: the end of the time is no fault.
func tooLong(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return later("no answer in time: reading takes too long: ask for less, or again later")
	}
	return err
}

// guarded makes an error of a panic: it would end the server, with all its listeners.
func guarded[T any](ctx context.Context, work func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a fault of radar: %v\n%s", p, debug.Stack())
		}
	}()
	return work(ctx)
}

// find returns the answer for a key, and whether the caller is to work it out.
func (a *answers) find(key string) (g *given, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for k, old := range a.list {
		if !old.until.IsZero() && now.After(old.until) {
			delete(a.list, k)
		}
	}
	if g = a.list[key]; g != nil {
		g.waiting++
		return g, false
	}
	g = &given{done: make(chan struct{}), left: make(chan struct{}), waiting: 1}
	a.list[key] = g
	return g, true
}

// begin reports whether somebody still wants an answer, which is worked out then.
func (a *answers) begin(g *given) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	g.begun = g.waiting > 0
	return g.begun
}

// leave is for who does not wait any more. Work that nobody waits for does not begin: else clients that ask and go
// would make a queue without an end. It reports whether the work has begun.
func (a *answers) leave(key string, g *given) (begun bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g.waiting--; g.waiting == 0 && !g.begun {
		close(g.left)
		delete(a.list, key)
	}
	return g.begun
}
