// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// mostShown is how many bytes of a packet a message shows.
const mostShown = 2048

// guard calls fn, which handles a packet: of many, the last. A panic in it is a bug of radar, which
// whoever sends reports could otherwise end the collector by: it is counted, the first one is told,
// and what it may have left half done goes. ok is false after one.
func (c *Collector) guard(p Packet, fn func()) (ok bool) {
	defer func() {
		if why := recover(); why != nil {
			c.bug(p, why)
		}
	}()
	fn()
	return true
}

// bug is what guard does after a panic, in the function that recovers.
func (c *Collector) bug(p Packet, why any) {
	if c.store.Info().Bugs++; c.store.Info().Bugs == 1 {
		c.warn(fmt.Sprintf("a bug of radar: it failed at a datagram, which it passes over, and goes on; please report this: %v (%s); packet %s",
			why, callers(), shown(p.IP)))
	}
	c.translator.forget()
	c.templates = templates{}
	// The engine may have raised a part of the events: what templates say of the flow, queues and
	// links may no longer hold. Forgotten, it is new when it is reported again.
	defer func() { _ = recover() }() // by a hook that fails again; Drop has removed all by then
	c.engine.Drop(&c.report)
}

// callers says where a panic was, the innermost first.
func callers() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var list []string
	panicked := false
	for more := true; more && len(list) < 6; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && !strings.HasPrefix(f.Function, "runtime."):
			list = append(list, fmt.Sprintf("%s:%d", path.Base(f.File), f.Line))
		}
	}
	return strings.Join(list, " < ")
}

// shown is a packet in hex, for a message.
func shown(b []byte) string {
	if len(b) <= mostShown {
		return fmt.Sprintf("%x", b)
	}
	return fmt.Sprintf("%x and %d bytes more", b[:mostShown], len(b)-mostShown)
}
