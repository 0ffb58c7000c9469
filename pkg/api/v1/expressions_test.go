// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/vnetradar/radar/pkg/filter"
)

// TestExpressionsStuck: who waits for an expression that does not end goes when the request does, and what is known
// already is answered meanwhile.
func TestExpressionsStuck(t *testing.T) {
	x := newExpressions()
	begun, release := make(chan struct{}), make(chan struct{})
	known := &filter.Expr{}
	x.compile = func(text string) (*filter.Expr, error) {
		if text == "known" {
			return known, nil
		}
		begun <- struct{}{}
		<-release
		return known, nil
	}
	if e, err := x.of(t.Context(), "known"); e != known || err != nil {
		t.Fatal(e, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, text := range []string{"stuck", "behind it"} {
		go func() {
			_, err := x.of(ctx, text)
			ended <- err
		}()
	}
	<-begun
	if e, err := x.of(t.Context(), "known"); e != known || err != nil {
		t.Error(e, err)
	}
	stop()
	for range 2 {
		if err := <-ended; !errors.Is(err, errNotCompiled) {
			t.Error(err)
		}
	}
	close(release)
	go func() {
		for range begun { // whoever compiles now
		}
	}()
	if e, err := x.of(t.Context(), "stuck"); e != known || err != nil { // kept once it was there
		t.Error(e, err)
	}
	for i := range 2 * mostExpressions {
		if _, err := x.of(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(x.list) > mostExpressions {
		t.Errorf("%d are kept", len(x.list))
	}
	close(begun)
}
