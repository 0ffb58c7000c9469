// SPDX-License-Identifier: Apache-2.0

package api

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// remembered is how many events of a collector are kept for listeners that are behind, or come back: some 12 MB.
const remembered = 1 << 15

// mostRemembered bounds what a hub keeps, bytes of events.
const mostRemembered = 32 << 20

// Why a listener gets nothing more.
var (
	errBehind = errors.New("too far behind")
	errClosed = errors.New("closed")
)

// Hub keeps the newest events, from which each listener reads at its own pace: there is no queue
// for each, and the writer waits for nobody.
type Hub struct {
	origin string // which command sends them: a comment of each stream

	epoch string // tells the ids of this process from others'

	mu          sync.Mutex
	ring        []sent
	first, next uint64 // positions: ring[p%len(ring)] for first <= p < next
	bytes       int    // of the events between them
	newest      uint64 // number of the newest event
	listeners   map[*listener]struct{}
	closed      bool
	cut, denied uint64 // listeners
}

// sent is an event as it is sent, or, if missed is not 0, so many of which the last had that
// number: they did not find room in the queue.
type sent struct {
	number, missed uint64
	topic          uint8
	kind           string // of the event, for listeners; "": a message
	data           []byte // a JSON object and a newline
}

type listener struct {
	at     uint64 // position
	behind uint64 // number of the event before the first that it gets
	wake   chan struct{}
}

// NewHub makes a hub without events, which keeps the newest size of them. origin is the command that sends them.
func NewHub(origin string, size int) *Hub {
	var epoch [4]byte
	_, _ = rand.Read(epoch[:])
	return &Hub{origin: origin, ring: make([]sent, size), epoch: hex.EncodeToString(epoch[:]), listeners: make(map[*listener]struct{})}
}

// Publish adds an event: a JSON object and a newline, which become the hub's. Listeners choose by
// topic. Events have numbers from 1; where one is left out, listeners are told.
func (h *Hub) Publish(number uint64, topic uint8, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := number - h.newest - 1; n > 0 {
		h.appendEvent(sent{number: number - 1, missed: n})
	}
	h.appendEvent(sent{number: number, topic: topic, data: data})
	h.newest = number
	h.wakeAll()
}

// Send adds an event of a kind, with the next number.
func (h *Hub) Send(topic uint8, kind string, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest++
	h.appendEvent(sent{number: h.newest, topic: topic, kind: kind, data: data})
	h.wakeAll()
}

func (h *Hub) size() uint64 { return uint64(len(h.ring)) }

func (h *Hub) appendEvent(s sent) {
	if h.next-h.first == h.size() {
		h.dropFirst()
	}
	h.ring[h.next%h.size()] = s
	h.next++
	h.bytes += len(s.data)
	for h.bytes > mostRemembered && h.next-h.first > 1 {
		h.dropFirst()
	}
}

func (h *Hub) dropFirst() {
	old := &h.ring[h.first%h.size()]
	h.bytes -= len(old.data)
	old.data = nil
	h.first++
}

func (h *Hub) wakeAll() {
	for l := range h.listeners {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// addListener adds a listener. The server's places limit how many there are: one whose place was given
// to another may still be here when that one joins. last is the id of the last event that it has,
// "" if it wants to hear what comes from now on. missed is how many it has missed for good,
// restarted whether its id is of another process or none: then it gets all that is remembered.
func (h *Hub) addListener(last string) (l *listener, missed uint64, restarted bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, 0, false, errClosed
	}
	l = &listener{at: h.next, behind: h.newest, wake: make(chan struct{}, 1)}
	h.listeners[l] = struct{}{}
	if last == "" {
		return l, 0, false, nil
	}
	number, ok := h.number(last)
	if !ok {
		number = 0
	}
	l.at = h.first + uint64(sort.Search(int(h.next-h.first), func(i int) bool {
		return h.ring[(h.first+uint64(i))%h.size()].number > number
	}))
	if l.at < h.next {
		s := &h.ring[l.at%h.size()]
		if s.missed > 0 { // told at once, as far as it is new to the listener
			missed = s.number - number
			l.at++
		} else {
			missed = s.number - 1 - number
		}
	}
	if l.at < h.next {
		l.behind = h.ring[l.at%h.size()].number - 1
	}
	return l, missed, !ok, nil
}

// id is what listeners know an event by.
func (h *Hub) id(number uint64) string { return h.epoch + "-" + strconv.FormatUint(number, 10) }

// number is that of an id of this process.
func (h *Hub) number(id string) (uint64, bool) {
	epoch, digits, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && epoch == h.epoch && n <= h.newest
}

// takeEvents appends what the listener has not got yet to list, at most most of it; nothing: there is
// nothing now.
func (h *Hub) takeEvents(l *listener, list []sent, most int) ([]sent, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.at < h.first {
		return list, errBehind
	}
	for ; l.at < h.next && len(list) < most; l.at++ {
		list = append(list, h.ring[l.at%h.size()])
	}
	if len(list) == 0 && h.closed {
		return list, errClosed
	}
	return list, nil
}

// removeListener removes a listener; cut says that it was too slow.
func (h *Hub) removeListener(l *listener, cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
	if cut {
		h.cut++
	}
}

// countDenied counts a listener for which there was no place.
func (h *Hub) countDenied() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.denied++
}

// Close ends all listeners as soon as they have what there is.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.wakeAll()
}

// Counts are how many listeners there are, were cut off for being slow, and were turned away.
func (h *Hub) Counts() (now int, cut, denied uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners), h.cut, h.denied
}
