// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
)

// Limits of the server.
const (
	mostConnections = 256
	mostListeners   = 64          // of streams of events, unless Config says otherwise
	mostAnswers     = 8           // at a time
	answerPatience  = time.Second // how old one is that is cut off for another client
	// AnswerTime is for one of them.
	AnswerTime = 30 * time.Second
	sendBuffer = 256 << 10 // bytes that the kernel keeps for who does not read
)

// Config says where a Server listens and what it is called.
type Config struct {
	// Address is ADDRESS:PORT. Of a port alone, it is the one of this machine only.
	Address string
	// Names are those that a request's Host header may have beside addresses, localhost, and the
	// name in Address.
	Names []string
	// OtherName is what a request is told that names another server, with room for that name.
	OtherName string
	// Index is what it answers at /: what else there is. "": nothing, or what Answer serves there.
	Index string
	// Face is that of whoever runs the server, whom some answers tell what to do.
	Face fault.Face
	Log  *slog.Logger
	// Listeners is how many may listen to streams at a time; 0: 64. There may be four times as many connections.
	Listeners int
	// TLS is nil for plain HTTP. Clients get HTTP/1.1 by it, too: a place is one connection's.
	TLS *tls.Config
	// Guard says which requests are answered; nil: all.
	Guard *Guard
}

// Server answers by HTTP. What it serves is added by Answer and Stream before Serve.
type Server struct {
	listener  net.Listener // with TLS, if there is any
	address   netip.AddrPort
	mux       *http.ServeMux
	http      *http.Server
	log       *slog.Logger
	face      fault.Face
	otherName string
	beat      time.Duration // between heartbeats
	names     []string      // that requests may name beside addresses and the loopback's

	otherHosts            atomic.Uint64 // requests that named another server
	conns, readers, seats *places       // connections, listeners of streams, answers
}

// Listen opens the address. Nothing is answered before Serve.
func Listen(c Config) (*Server, error) {
	address := c.Address
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// Connections inherit it. A listener that does not read is to be seen soon.
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer) })
	}}
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve HTTP: %w", err)
	}
	listeners := cmp.Or(c.Listeners, mostListeners)
	s := &Server{
		mux: http.NewServeMux(), log: c.Log, face: c.Face, otherName: c.OtherName, beat: heartbeat, names: hostNames(c.Names, address),
		address: listener.Addr().(*net.TCPAddr).AddrPort(),
		// A connection on which no answer is under way can always be taken, so that there is room
		// for one that asks something.
		conns:   newPlaces(max(mostConnections, 4*c.Listeners), 0, 0),
		readers: newPlaces(listeners, max(1, listeners/8), math.MaxInt64),
		seats:   newPlaces(mostAnswers, 0, answerPatience),
	}
	s.listener = &fairListener{listener, s.conns}
	if c.TLS != nil {
		s.listener = tls.NewListener(s.listener, c.TLS)
	}
	if c.Index != "" {
		s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, c.Face.Render(c.Index)) })
	}
	s.http = &http.Server{
		Handler: s.checkHost(c.Guard.check(s.mux)), ConnContext: withConn, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: AnswerTime,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Answer serves what matches pattern, as http.ServeMux has them. A client that is slow to take its
// answer loses it to one that has none.
func (s *Server) Answer(pattern string, handler http.Handler) {
	s.mux.Handle(pattern, s.seats.in(handler, tooMany))
}

// Listen serves what matches pattern to those who stay: they hold places of listeners meanwhile.
func (s *Server) Listen(pattern string, handler http.Handler) {
	s.mux.Handle(pattern, s.readers.in(handler, tooMany))
}

// Addr is where it listens.
func (s *Server) Addr() netip.AddrPort { return s.address }

// Serve answers until Shutdown, or until it fails; then it returns the error.
func (s *Server) Serve() error { return s.http.Serve(s.listener) }

// Shutdown lets answers end until ctx is done. Streams end when their hubs are closed.
func (s *Server) Shutdown(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}

// Close closes a server that does not serve yet. Shutdown ends the others.
func (s *Server) Close() error { return s.listener.Close() }

// Place is something of which clients hold a limited number: a connection, a listener, an answer.
type Place struct {
	What    string
	Taken   uint64 // ended to make room for another client
	Refused uint64 // for which there was no room
}

// listenerPlace is what a Place of listeners is called.
const listenerPlace = "listener"

// Places are the counters of the server's limits.
func (s *Server) Places() (list []Place) {
	for _, of := range []struct {
		what   string
		places *places
	}{{"connection", s.conns}, {listenerPlace, s.readers}, {"answer", s.seats}} {
		taken, refused := of.places.counts()
		list = append(list, Place{of.what, taken, refused})
	}
	return list
}

// OtherHosts is how many requests were refused because they named another server.
func (s *Server) OtherHosts() uint64 { return s.otherHosts.Load() }

// tooMany answers a request for which there is no place.
func tooMany(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "1")
	Refuse(w, http.StatusServiceUnavailable, "as many such requests as possible are being answered, try again later")
}
