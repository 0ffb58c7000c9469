// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"testing"
)

// Work that nobody waits for does not begin, and nothing of it stays: clients that ask and go make no queue.
func TestAskAndGo(t *testing.T) {
	a := newAnswers()
	release, begun := make(chan struct{}), make(chan struct{}, 2)
	for _, key := range []string{"x", "y"} { // both places are taken
		go func() {
			_, _ = once(t.Context(), a, key, func(context.Context) (int, error) {
				begun <- struct{}{}
				<-release
				return 1, nil
			})
		}()
	}
	<-begun
	<-begun
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for key := range 1000 {
		if _, err := once(ctx, a, string(rune('a'+key)), func(context.Context) (int, error) {
			t.Error("work was done that nobody waits for")
			return 0, nil
		}); err == nil {
			t.Fatal("a client that has gone gets an answer")
		}
	}
	a.mu.Lock()
	waiting := len(a.list)
	a.mu.Unlock()
	if waiting != 2 {
		t.Errorf("%d answers are kept, want 2", waiting)
	}
	close(release)
	if n, err := once(t.Context(), a, "z", func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("the next one gets %d, %v", n, err)
	}
}
