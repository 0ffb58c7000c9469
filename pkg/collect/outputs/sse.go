// SPDX-License-Identifier: Apache-2.0

package outputs

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/vnetradar/radar/pkg/collect/metrics"
	"github.com/vnetradar/radar/pkg/fault"
)

const (
	heartbeat  = 15 * time.Second // proxies close connections on which nothing comes
	listenTime = 5 * time.Second  // for one write
	sentAtOnce = 64               // events by one write
)

// serveEvents answers by server-sent events (HTML standard, section 9.2): the data of an event is
// an object of docs/int.md, its id what a listener that comes back says as Last-Event-ID. An event
// of type "missed" says that there were others.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	want, err := wanted(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l, missed, restarted, err := s.hub.join(r.Header.Get("Last-Event-ID"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	out := &stream{hub: s.hub, face: s.face, w: w, control: http.NewResponseController(w), want: want}
	err = out.begin(missed, restarted)
	if err == nil {
		err = out.follow(r, l, s.beat)
	}
	s.hub.leave(l, errors.Is(err, errBehind) || errors.Is(err, os.ErrDeadlineExceeded))
}

func (s *Server) denyListener(w http.ResponseWriter, r *http.Request) {
	s.hub.deny()
	tooMany(w, r)
}

// stream is the answer to one listener.
type stream struct {
	hub     *hub
	face    fault.Face
	w       http.ResponseWriter
	control *http.ResponseController
	want    [metrics.NumMetrics]bool
	buf     bytes.Buffer
}

func (s *stream) begin(missed uint64, restarted bool) error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events
	s.buf.WriteString(s.face.Render(": «collect»\nretry: 1000\n\n"))
	switch {
	case restarted:
		s.buf.WriteString("event: missed\ndata: {\"restarted\":true}\n\n")
	case missed > 0:
		s.missed(missed)
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
		if batch, err = s.hub.take(l, batch[:0], sentAtOnce); err != nil {
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
	case s.want[e.metric]:
		fmt.Fprintf(&s.buf, "id: %s\ndata: %s\n", s.hub.id(e.number), e.data)
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
