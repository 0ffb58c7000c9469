// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/filter"
)

// Clients of these tests.
var (
	mallet = api.Client{}
	alice  = api.OtherHost(netip.MustParseAddr("192.0.2.1"))
	bob    = api.OtherHost(netip.MustParseAddr("192.0.2.2"))
)

// gated are expressions whose compiling ends when the test says so.
type gated struct {
	*expressions
	begun, release chan struct{}

	mu    sync.Mutex
	order []string // in which they were compiled
}

func newGated() *gated {
	g := &gated{expressions: newExpressions(), begun: make(chan struct{}), release: make(chan struct{})}
	g.patience = time.Hour
	g.compile = func(text string) (*filter.Expr, error) {
		g.mu.Lock()
		g.order = append(g.order, text)
		g.mu.Unlock()
		g.begun <- struct{}{}
		<-g.release
		return &filter.Expr{}, nil
	}
	return g
}

// free lets everything be compiled at once.
func (g *gated) free() {
	close(g.release)
	go func() {
		for range g.begun {
		}
	}()
}

func (g *gated) compiled() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.order)
}

func (g *gated) queued(client api.Client) int {
	g.expressions.mu.Lock()
	defer g.expressions.mu.Unlock()
	if q := g.asking[client]; q != nil {
		return len(q.jobs)
	}
	return 0
}

// ask asks for a text, and returns when it waits.
func (g *gated) ask(ctx context.Context, t *testing.T, client api.Client, text string) (ended chan error) {
	t.Helper()
	before := g.queued(client)
	ended = make(chan error, 1)
	go func() {
		_, err := g.of(ctx, client, text)
		ended <- err
	}()
	nstest.WaitFor(t, "the request to wait", func() bool { return g.queued(client) > before })
	return ended
}

// TestExpressionsTurns: who asks for many expressions waits behind himself. Others wait for one of his.
func TestExpressionsTurns(t *testing.T) {
	g := newGated()
	var waiting []chan error
	ask := func(client api.Client, text string) { waiting = append(waiting, g.ask(t.Context(), t, client, text)) }
	for i := range mostQueued {
		ask(mallet, fmt.Sprint("m", i))
		if i == 0 {
			<-g.begun
		}
	}
	var none *notCompiled
	gone, stop := context.WithCancel(t.Context())
	stop()
	if _, err := g.of(gone, mallet, "one more"); !errors.As(err, &none) || !strings.Contains(err.Error(), "as many as may wait") {
		t.Errorf("more than a client's share wait: %v", err)
	}
	for i := range 2 {
		ask(alice, fmt.Sprint("a", i))
		ask(bob, fmt.Sprint("b", i))
	}
	g.free()
	for _, ended := range waiting {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if got, want := g.compiled()[:8], []string{"m0", "m1", "a0", "b0", "m2", "a1", "b1", "m3"}; !slices.Equal(got, want) {
		t.Errorf("they were compiled in the order %v, want %v", got, want)
	}
	close(g.begun)
}

// TestExpressionsStuck: who waits for an expression that does not end goes when the request does, with a cause, and
// what is known already is answered meanwhile. Nothing stays of what nobody waits for.
func TestExpressionsStuck(t *testing.T) {
	g := newGated()
	g.keep(alice, "known", compiled{expr: &filter.Expr{}})
	ctx, stop := context.WithCancel(t.Context())
	stuck := g.ask(ctx, t, mallet, "stuck")
	<-g.begun
	behind, other := g.ask(ctx, t, mallet, "behind it"), g.ask(ctx, t, alice, "behind all")
	if e, err := g.of(t.Context(), mallet, "known"); e == nil || err != nil {
		t.Error(e, err)
	}
	stop()
	for _, of := range []struct {
		ended chan error
		want  string
	}{
		{stuck, "it takes too long"},
		{behind, "its turn has not come, 1 of the same client and those of"},
		{other, "its turn has not come, 0 of the same client and those of 1 others"},
	} {
		var not *notCompiled
		if err := <-of.ended; !errors.As(err, &not) || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%v, want %q", err, of.want)
		}
	}
	if n, others := g.queued(mallet), g.queued(alice); n != 1 || others != 0 {
		t.Errorf("%d and %d are waited for by nobody", n-1, others)
	}
	g.free()
	if e, err := g.of(t.Context(), mallet, "stuck"); e == nil || err != nil {
		t.Error(e, err)
	}
	if got := g.compiled(); !slices.Equal(got, []string{"stuck"}) {
		t.Errorf("%v were compiled", got)
	}
	close(g.begun)
}

// TestExpressionsTogether: requests of a client for the same text wait for one compiling, and so do those of two.
func TestExpressionsTogether(t *testing.T) {
	g := newGated()
	var waiting []chan error
	waiting = append(waiting, g.ask(t.Context(), t, mallet, "same"), g.ask(t.Context(), t, alice, "same"))
	<-g.begun
	for range 2 * mostQueued {
		ended := make(chan error, 1)
		go func() {
			_, err := g.of(t.Context(), mallet, "same")
			ended <- err
		}()
		waiting = append(waiting, ended)
	}
	g.free()
	for _, ended := range waiting {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if got := g.compiled(); len(got) != 1 {
		t.Errorf("it was compiled %d times", len(got))
	}
	close(g.begun)
}

// TestExpressionsKept: however many a client asks for, another one keeps his, also such as both have asked for.
func TestExpressionsKept(t *testing.T) {
	x := newExpressions()
	count := make(map[string]int)
	x.compile = func(text string) (*filter.Expr, error) {
		count[text]++
		return &filter.Expr{}, nil
	}
	ask := func(client api.Client, text string) {
		t.Helper()
		if _, err := x.of(t.Context(), client, text); err != nil {
			t.Fatal(err)
		}
	}
	ask(mallet, "both")
	ask(alice, "own")
	ask(alice, "both")
	for i := range 1000 {
		ask(mallet, fmt.Sprint(i))
	}
	ask(alice, "own")
	ask(alice, "both")
	if count["own"] != 1 || count["both"] != 1 {
		t.Errorf("what a client uses was compiled anew: %d and %d times", count["own"], count["both"])
	}
	for i := range 2 * mostKeepers {
		ask(api.OtherHost(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})), fmt.Sprint("of ", i))
	}
	total := 0
	for _, k := range x.keepers {
		total += len(k.list)
	}
	if len(x.keepers) > mostKeepers || total > mostKeepers*mostKept {
		t.Errorf("%d are kept for %d clients", total, len(x.keepers))
	}
}

// TestOneDeadline: a request that waits for its expression, and then for its question, has one deadline: it is told
// what it has waited for, and when to ask again, before the connection is cut.
func TestOneDeadline(t *testing.T) {
	const limit = 50 * time.Millisecond
	g := newGated()
	a := &API{answers: newAnswers(), texts: g.expressions, Config: Config{Files: map[string]answer.File{}}}
	mux := http.NewServeMux()
	a.huma = humago.New(mux, describe("1"))
	a.register()
	var left atomic.Int64
	server := httptest.NewServer(within(limit, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		until, ok := r.Context().Deadline()
		if left.Store(int64(time.Until(until))); !ok {
			left.Store(math.MaxInt64)
		}
		mux.ServeHTTP(w, r)
	})))
	defer server.Close()
	ask := func(query, want string) {
		t.Helper()
		client := http.Client{Timeout: nstest.Patience}
		response, err := client.Get(server.URL + Base + "/domains/none/paths" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" || !strings.Contains(string(body), want) {
			t.Errorf("code %d, Retry-After %q, %s, %v; want %q", response.StatusCode, response.Header.Get("Retry-After"), body, err, want)
		}
		if left := time.Duration(left.Load()); left > limit {
			t.Errorf("%v are left of the request's time", left)
		}
	}
	stuck := g.ask(t.Context(), t, alice, "stuck")
	<-g.begun
	ask("?filter=udp", "its turn has not come, 0 of the same client and those of 1 others are before it")
	for range atOnce {
		a.answers.gate <- struct{}{}
	}
	ask("", "it was not begun, since 2 other questions are being answered")
	g.free()
	if err := <-stuck; err != nil {
		t.Error(err)
	}
	close(g.begun)
}
