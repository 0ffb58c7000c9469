// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

const (
	heartbeat  = 15 * time.Second // proxies close connections on which nothing comes
	listenTime = 5 * time.Second  // for one write
	sentAtOnce = 64               // events by one write
)

// Wanted says which topics a request asks for. An error is the client's, which gets its text.
type Wanted func(*http.Request) (topic func(uint8) bool, err error)

// Stream serves the hub's events at pattern, as server-sent events (HTML standard, section 9.2):
// the data of an event is its JSON object, its id what a listener that comes back says as
// Last-Event-ID. An event of type "missed" says that there were others.
func (s *Server) Stream(pattern string, h *Hub, want Wanted) {
	s.mux.Handle(pattern, s.readers.in(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, want, s.beat)
	}), func(w http.ResponseWriter, r *http.Request) {
		h.countDenied()
		tooMany(w, r)
	}))
}

// Follow answers with the hub's events of some topics, as Stream does. The caller is a handler of Listen.
func (s *Server) Follow(w http.ResponseWriter, r *http.Request, h *Hub, want func(topic uint8) bool) {
	h.follow(w, r, want, s.beat)
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request, wanted Wanted, beat time.Duration) {
	want, err := wanted(r)
	if err != nil {
		Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	h.follow(w, r, want, beat)
}

func (h *Hub) follow(w http.ResponseWriter, r *http.Request, want func(topic uint8) bool, beat time.Duration) {
	l, missed, restarted, err := h.addListener(r.Header.Get("Last-Event-ID"))
	if err != nil {
		Refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	out := &stream{hub: h, w: w, control: http.NewResponseController(w), want: want}
	err = out.begin(l, missed, restarted)
	if err == nil {
		err = out.follow(r, l, beat)
	}
	h.removeListener(l, errors.Is(err, errBehind) || errors.Is(err, os.ErrDeadlineExceeded))
}

// stream is the answer to one listener.
type stream struct {
	hub     *Hub
	w       http.ResponseWriter
	control *http.ResponseController
	want    func(topic uint8) bool
	buf     bytes.Buffer
}

func (s *stream) begin(l *listener, missed uint64, restarted bool) error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events
	// The id is for a listener that loses its connection before the first event.
	fmt.Fprintf(&s.buf, ": %s\nretry: 1000\nid: %s\n", s.hub.origin, s.hub.id(l.behind))
	switch {
	case restarted:
		s.buf.WriteString("event: missed\ndata: {\"restarted\":true}\n\n")
	case missed > 0:
		s.missed(missed)
	default:
		s.buf.WriteByte('\n')
	}
	return s.flush()
}

func (s *stream) missed(n uint64) {
	fmt.Fprintf(&s.buf, "event: missed\ndata: {\"missed\":%d}\n\n", n)
}

// follow sends events until the listener, or the server, ends.
func (s *stream) follow(r *http.Request, l *listener, every time.Duration) error {
	beat := time.NewTicker(every)
	defer beat.Stop()
	var batch []sent
	for {
		var err error
		if batch, err = s.hub.takeEvents(l, batch[:0], sentAtOnce); err != nil {
			return err
		}
		if len(batch) == 0 {
			select {
			case <-l.wake:
			case <-beat.C:
				s.buf.WriteString(": still here\n\n")
			case <-r.Context().Done():
				return r.Context().Err()
			}
		}
		for i := range batch {
			s.event(&batch[i])
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
}

func (s *stream) event(e *sent) {
	switch {
	case e.missed > 0:
		fmt.Fprintf(&s.buf, "id: %s\n", s.hub.id(e.number))
		s.missed(e.missed)
	case s.want(e.topic):
		fmt.Fprintf(&s.buf, "id: %s\n", s.hub.id(e.number))
		if e.kind != "" {
			fmt.Fprintf(&s.buf, "event: %s\n", e.kind)
		}
		fmt.Fprintf(&s.buf, "data: %s\n", e.data)
	}
}

// flush sends what is there, if the listener takes it in time.
func (s *stream) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(listenTime)); err != nil {
		return err
	}
	if _, err := s.buf.WriteTo(s.w); err != nil {
		return err
	}
	return s.control.Flush()
}
