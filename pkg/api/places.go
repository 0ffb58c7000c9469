// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/host"
)

// places are a limited number of things that clients hold: connections, or answers that are
// being written. A limit alone would let one client hold all of them. When all are taken, who
// comes next takes the place of somebody else: of the client that holds most the oldest place.
// A client that has as many names as there are places would hold one under each: the youngest
// places are a reserve, and who has none gets the oldest of these.
type places struct {
	most    int
	reserve int
	// patience is how old a place must be, until one is taken for somebody who would then hold
	// as many. Who holds fewer need not wait.
	patience time.Duration

	mu          sync.Mutex
	held        map[*place]struct{}
	cut, denied uint64 // places that were taken away, and clients that found none
}

// place is one of them.
type place struct {
	of     *places
	client Client
	since  time.Time
	end    func() // ends what holds the place, and does not wait for it
	kept   int    // while it is not 0 nobody can take it
}

func newPlaces(most, reserve int, patience time.Duration) *places {
	return &places{most: most, reserve: reserve, patience: patience, held: make(map[*place]struct{})}
}

// takePlace gives the client a place; nil: there is none. The caller leaves it.
func (p *places) takePlace(c Client, end func()) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) >= p.most {
		other := p.choosePlace(c)
		if other == nil {
			p.denied++
			return nil
		}
		p.cut++
		delete(p.held, other)
		other.end()
	}
	l := &place{of: p, client: c, since: time.Now(), end: end}
	p.held[l] = struct{}{}
	return l
}

// choosePlace is whose place the client gets, nil: nobody's.
func (p *places) choosePlace(c Client) (chosen *place) {
	count := map[Client]int{c: 1}
	for l := range p.held {
		count[l.client]++
	}
	for l := range p.held {
		if l.kept > 0 || count[l.client] <= count[c] && time.Since(l.since) < p.patience {
			continue
		}
		if chosen == nil || count[l.client] > count[chosen.client] ||
			count[l.client] == count[chosen.client] && l.since.Before(chosen.since) {
			chosen = l
		}
	}
	if chosen == nil && count[c] == 1 {
		return p.reserved()
	}
	return chosen
}

// reserved is the oldest of the youngest places.
func (p *places) reserved() *place {
	var list []*place
	for l := range p.held {
		if l.kept == 0 {
			list = append(list, l)
		}
	}
	if p.reserve == 0 || len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b *place) int { return b.since.Compare(a.since) })
	return list[min(p.reserve, len(list))-1]
}

// giveBack gives the place back.
func (l *place) giveBack() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	delete(l.of.held, l)
}

// keep says that nobody can take the place until the returned function is called.
func (l *place) keep() (done func()) {
	add := func(n int) {
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		l.kept += n
	}
	add(1)
	return func() { add(-1) }
}

// counts are how many places were taken away, and how many clients found none.
func (p *places) counts() (cut, denied uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut, p.denied
}

// Client is who holds places: a user of this machine, whichever of its addresses he takes, or another host.
type Client struct {
	host netip.Addr // zero: this machine
	user int64      // of this machine; unknownUser: the kernel does not tell
}

// unknownUser are all users of this machine of whom nothing is known: together they are one client.
const unknownUser = -1

// clientOf is who has the other end of a connection. Other hosts have a whole /64 of IPv6 each.
func clientOf(c net.Conn) Client {
	from, ok := c.RemoteAddr().(*net.TCPAddr)
	to, is := c.LocalAddr().(*net.TCPAddr)
	if !ok || !is {
		return Client{}
	}
	remote, local := from.AddrPort(), to.AddrPort()
	a := remote.Addr().Unmap()
	if a == local.Addr().Unmap() || host.IsOwn(a) {
		uid, err := host.OwnerOf(remote, local)
		if err != nil {
			return Client{user: unknownUser}
		}
		return Client{user: int64(uid)}
	}
	return OtherHost(a)
}

// OtherHost is the client that an address of another host counts for.
func OtherHost(a netip.Addr) Client {
	if a.Is6() {
		if prefix, err := a.WithZone("").Prefix(64); err == nil {
			return Client{host: prefix.Addr()}
		}
	}
	return Client{host: a}
}

// fairListener accepts connections as far as there are places.
type fairListener struct {
	net.Listener
	places *places
}

// heldConn is a connection and its place.
type heldConn struct {
	net.Conn
	place *place
	once  sync.Once
}

// Accept implements net.Listener.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if at := l.places.takePlace(clientOf(conn), func() { conn.Close() }); at != nil {
			return &heldConn{Conn: conn, place: at}, nil
		}
		conn.Close()
	}
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	c.once.Do(c.place.giveBack)
	return c.Conn.Close()
}

type connKey struct{}

// ClientOf is who has sent the request of a context.
func ClientOf(ctx context.Context) Client {
	if conn, ok := plain(ctx.Value(connKey{})).(*heldConn); ok {
		return conn.place.client
	}
	return Client{user: unknownUser}
}

// withConn is the server's ConnContext: handlers find their connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// plain is the connection below TLS.
func plain(conn any) any {
	if over, ok := conn.(*tls.Conn); ok {
		return over.NetConn()
	}
	return conn
}

// in handles requests that hold one of the places meanwhile, and whose connection nobody can
// take; deny answers the others.
func (p *places) in(handle http.Handler, deny http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, ok := plain(r.Context().Value(connKey{})).(*heldConn)
		if !ok {
			http.Error(w, "no connection", http.StatusInternalServerError)
			return
		}
		at := p.takePlace(conn.place.client, func() { conn.Conn.Close() })
		if at == nil {
			deny(w, r)
			return
		}
		defer at.giveBack()
		defer conn.place.keep()()
		handle.ServeHTTP(w, r)
	})
}
