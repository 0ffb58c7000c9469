// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/filter"
)

const (
	// compileTime is how long a request waits for its expression. One of 1,000 bytes may take libpcap seconds.
	compileTime = 10 * time.Second
	// mostExpressions are kept: what asks again and again has its own among them.
	mostExpressions = 64
)

// errNotCompiled: those before it, or libpcap itself, take too long.
var errNotCompiled = errors.New("the filter expression is not compiled yet: others are before it, or it is too complex; ask for less, or again later")

// expressions are the filters of requests. libpcap compiles one at a time, in C, where a deadline does not reach:
// who waits for it waits here, and goes when the time is over.
type expressions struct {
	compile func(string) (*filter.Expr, error)
	gate    chan struct{}

	mu   sync.Mutex
	list map[string]compiled
}

// compiled is what became of a text. It stays true: no name in it means something else later.
type compiled struct {
	expr *filter.Expr
	err  error
}

func newExpressions() *expressions {
	return &expressions{compile: filter.CompileNumeric, gate: make(chan struct{}, 1), list: make(map[string]compiled)}
}

// of compiles a text, or knows it already. errNotCompiled: it took too long, or ctx has ended.
func (x *expressions) of(ctx context.Context, text string) (*filter.Expr, error) {
	if c, ok := x.known(text); ok {
		return c.expr, c.err
	}
	ctx, stop := context.WithTimeout(ctx, compileTime)
	defer stop()
	select {
	case x.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, errNotCompiled
	}
	done := make(chan compiled, 1)
	go func() {
		defer func() { <-x.gate }()
		c, ok := x.known(text) // whoever was before may have asked for the same
		if !ok {
			c.expr, c.err = x.compile(text)
			x.keep(text, c)
		}
		done <- c
	}()
	select {
	case c := <-done:
		return c.expr, c.err
	case <-ctx.Done():
		return nil, errNotCompiled
	}
}

func (x *expressions) known(text string) (compiled, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.list[text]
	return c, ok
}

func (x *expressions) keep(text string, c compiled) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for other := range x.list {
		if len(x.list) < mostExpressions {
			break
		}
		delete(x.list, other)
	}
	x.list[text] = c
}
