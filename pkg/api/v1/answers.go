// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"sync"
	"time"
)

const (
	// goodFor is how long an answer is given to all who ask the same.
	goodFor = time.Second
	// atOnce is how many questions are answered at a time: each may read a whole ring.
	atOnce = 2
)

// answers are those that were given in the last second. Whoever asks the same meanwhile gets the same.
type answers struct {
	gate chan struct{}

	mu   sync.Mutex
	list map[string]*given
}

// given is an answer, once done is closed.
type given struct {
	done  chan struct{}
	until time.Time // zero while it is worked out
	value any
	err   error
}

func newAnswers() *answers {
	return &answers{gate: make(chan struct{}, atOnce), list: make(map[string]*given)}
}

// once returns what work returns, or has returned less than a second ago for the same key.
func once[T any](ctx context.Context, a *answers, key string, work func(context.Context) (T, error)) (T, error) {
	var zero T
	g, mine := a.find(key)
	if mine {
		go func() { // it is for all who ask; the first may go before it is there
			a.gate <- struct{}{}
			defer func() { <-a.gate }()
			value, err := work(context.WithoutCancel(ctx))
			a.mu.Lock()
			defer a.mu.Unlock()
			g.value, g.err, g.until = value, err, time.Now().Add(goodFor)
			close(g.done)
		}()
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		return zero, ctx.Err()
	}
	if g.err != nil {
		return zero, g.err
	}
	return g.value.(T), nil
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
		return g, false
	}
	g = &given{done: make(chan struct{})}
	a.list[key] = g
	return g, true
}
