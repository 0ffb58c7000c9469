// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

// place is one side of a port.
type place struct {
	node, port string
	dir        direction
}

func (p place) String() string { return fmt.Sprintf("%s/%s %s", p.node, p.port, p.dir) }

// unit is one packet as it travels: a token, and what distinguishes the packet from
// others that carry the same token (an answer to it, an error that quotes it, a tunnel's
// packet around it, its fragments).
type unit struct {
	token    uint32
	proto    uint8
	icmpType uint8
	fragOff  int
	depth    int    // of the token, behind the L4 header
	tuple    string // of a packet without a token
}

func (u unit) String() string {
	if u.token == 0 {
		return u.tuple
	}
	s := fmt.Sprintf("token %d, protocol %d", u.token, u.proto)
	if u.proto == 1 || u.proto == 58 {
		s += fmt.Sprintf(" type %d", u.icmpType)
	}
	if u.fragOff > 0 {
		s += fmt.Sprintf(", fragment at %d", u.fragOff)
	}
	return s
}

func unitOf(s *sighting) unit {
	d := s.decoded
	if d.token == 0 {
		return unit{tuple: d.tuple()}
	}
	return unit{token: d.token, proto: d.proto, icmpType: d.icmpType, fragOff: d.fragOff, depth: tokenAt(s)}
}

// tooLate is how far apart the stamps of one packet at one port may be, where times are checked.
// However busy the machine is, what comes in is captured before radar sees it, and what goes
// out after that.
var tooLate = patience * 400 * time.Millisecond

// checker holds the records of one run against its captures.
type checker struct {
	r     *Run
	seen  map[place][]*sighting
	units map[unit]map[place][]*sighting
	taken map[*sighting]bool
	said  map[unit]map[place]int
	// begin is how many packets have a record that begins at a place with a tuple.
	begin map[place]map[string]int
	list  []finding
}

// checkRecords returns how many records it could check.
func (r *Run) checkRecords() (int, []finding) {
	k := &checker{r: r, seen: map[place][]*sighting{}, units: map[unit]map[place][]*sighting{},
		taken: map[*sighting]bool{}, said: map[unit]map[place]int{}, begin: map[place]map[string]int{}}
	for _, c := range r.captures {
		if !r.topo.has(c.node, c.port) {
			continue
		}
		for _, s := range c.seen {
			k.index(s)
		}
	}
	slices.SortFunc(r.Records, func(a, b record.Record) int { return cmp.Compare(a.TNs, b.TNs) })
	for i := range r.Records {
		for _, c := range claims(&r.Records[i]) {
			if !r.topo.isMachine(c.node) {
				if k.begin[c.place] == nil {
					k.begin[c.place] = make(map[string]int)
				}
				k.begin[c.place][c.tuple] += max(r.Records[i].Segs, 1)
				break
			}
		}
	}
	checked := 0
	for i := range r.Records {
		if k.check(&r.Records[i]) {
			checked++
		}
	}
	k.completeness()
	return checked, k.list
}

func (k *checker) index(s *sighting) {
	if s.decoded == nil {
		return
	}
	at := place{s.node, s.port, s.dir}
	k.seen[at] = append(k.seen[at], s)
	if s.token == 0 && (k.r.c.Loose || k.r.skipped(s)) {
		return
	}
	u := unitOf(s)
	if k.units[u] == nil {
		k.units[u] = make(map[place][]*sighting)
	}
	k.units[u][at] = append(k.units[u][at], s)
}

func (k *checker) wrong(rec *record.Record, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if rec != nil {
		what += "\n  record " + show(rec)
	}
	k.list = append(k.list, finding{wrong, what})
}

// show is a record in one line.
func show(rec *record.Record) string {
	s := fmt.Sprintf("%s %s", tupleOf(rec), rec.State)
	for _, h := range rec.Hops {
		s += fmt.Sprintf(" [%s %s %s]", h.InPort, h.Node, h.Port)
	}
	if rec.Loss != nil {
		s += fmt.Sprintf(" lost at %s %s/%s: %s %s", rec.Loss.At, rec.Loss.Node, rec.Loss.Port, rec.Loss.Reason, rec.Loss.Function)
	}
	if rec.LocalDrop != nil {
		s += fmt.Sprintf(" local drop: %s %s", rec.LocalDrop.Reason, rec.LocalDrop.Function)
	}
	return s
}

// check holds one record against the captures; false if it is of a packet without a
// token, which nothing can be said about.
func (k *checker) check(rec *record.Record) bool {
	list := claims(rec)
	last := list[len(list)-1:]
	// A machine's end of a tap is where the tap's captures are: its node claims it too.
	list = slices.DeleteFunc(slices.Clone(list), func(c claim) bool { return k.r.topo.isMachine(c.node) })
	if len(list) == 0 {
		k.wrong(rec, "a record without a place")
		return true
	}
	first := k.claim(rec, list)
	if first == nil {
		// Its first place may be a port whose queue has lost it.
		if s := k.byTuple(list[0].tuple); s == nil && k.r.c.Loose {
			return false
		} else if s == nil || rec.State != record.Lost {
			k.wrong(rec, "no capture has the packet that the record begins with, at %v", list[0].place)
			return true
		} else {
			first = s
		}
	}
	u := unitOf(first)
	if k.units[u] == nil {
		return false
	}
	if k.said[u] == nil {
		k.said[u] = make(map[place]int)
	}
	for i, c := range list {
		k.said[u][c.place] += rec.Segs
		// A queue that lost it, or this copy of it, comes before captures.
		mayBeAbsent := c.dir == out && (i == len(list)-1 && rec.State == record.Lost || rec.Hops[c.hop].Outcome == record.Lost)
		k.checkClaim(rec, u, c, mayBeAbsent)
		for _, b := range list[:i] {
			if leadsTo(rec, b.hop, c.hop) && !c.at.IsZero() && c.at.Before(b.at) {
				k.wrong(rec, "it was at %v before it was at %v", c.place, b.place)
			}
		}
	}
	k.checkState(rec, u, last[0])
	return true
}

// leadsTo reports whether hop b lies on the path to hop c, or is it.
func leadsTo(rec *record.Record, b, c int) bool {
	for c > b {
		c = rec.PrevOf(c)
	}
	return b == c
}

// claim finds the capture that a record begins with, and takes it and the rest of its
// train. Among packets of one flow those of the record's length come first. If all have records, it
// is the first of these that is left: what a machine does that stands still between two
// stamps is in order all the same. Else it is the nearest, of those that were wherever the
// record says at a time that is possible, if there are any.
func (k *checker) claim(rec *record.Record, list []claim) *sighting {
	c := list[0]
	var all []*sighting
	for _, s := range k.seen[c.place] {
		if s.tuple() == c.tuple {
			all = append(all, s)
		}
	}
	ordered := k.begin[c.place][c.tuple] == len(all)
	fits := func(s *sighting) bool { return s.end-s.decoded.l3 == rec.Len }
	choose := func(may func(*sighting) bool) (best *sighting) {
		for _, s := range all {
			if k.taken[s] || !may(s) {
				continue
			}
			if best == nil || fits(s) && !fits(best) ||
				fits(s) == fits(best) && !ordered && s.at.Sub(c.at).Abs() < best.at.Sub(c.at).Abs() {
				best = s
			}
		}
		return best
	}
	possible := func(s *sighting) bool {
		return !slices.ContainsFunc(list, func(c claim) bool { return !k.possible(unitOf(s), c) })
	}
	best := choose(func(*sighting) bool { return true })
	if best == nil {
		return nil
	}
	if !ordered && !possible(best) { // a machine that stands still makes another one the nearest
		if other := choose(possible); other != nil {
			best = other
		}
	}
	left := rec.Segs
	for _, s := range k.seen[c.place] {
		if left > 0 && !k.taken[s] && s.tuple() == c.tuple && s.at.Equal(best.at) {
			k.taken[s] = true
			left--
		}
	}
	return best
}

// possible reports whether captures have that packet at a place when a record says so.
func (k *checker) possible(u unit, c claim) bool {
	return slices.ContainsFunc(k.units[u][c.place], func(s *sighting) bool {
		return s.tuple() == c.tuple && (c.at.IsZero() || k.timely(s, c))
	})
}

// byTuple finds a packet at any port.
func (k *checker) byTuple(tuple string) *sighting {
	for _, c := range k.r.captures {
		for _, s := range c.seen {
			if s.decoded != nil && s.tuple() == tuple {
				return s
			}
		}
	}
	return nil
}

// checkClaim looks for one place of a record among the captures of its packet.
func (k *checker) checkClaim(rec *record.Record, u unit, c claim, mayBeAbsent bool) {
	there := k.units[u][c.place]
	if len(there) == 0 {
		if !mayBeAbsent {
			k.wrong(rec, "no capture saw it at %v (%v)", c.place, u)
		}
		return
	}
	right, soon := false, false
	for _, s := range there {
		right = right || s.tuple() == c.tuple
		soon = soon || c.at.IsZero() || k.timely(s, c)
	}
	if !right {
		k.wrong(rec, "at %v captures saw %s, the record says %s", c.place, there[0].tuple(), c.tuple)
	}
	if !soon {
		k.wrong(rec, "at %v captures saw it %v later than the record says", c.place, there[0].at.Sub(c.at))
	}
}

// timely reports whether a record's time is possible for a packet that was captured so.
func (k *checker) timely(s *sighting, c claim) bool {
	first, second := s.at, c.at
	if c.dir == out {
		first, second = second, first
	}
	late := second.Sub(first)
	if late < -clockError || c.at.Sub(k.r.end) > clockError {
		return false
	}
	return !k.r.checkTimes || late < tooLate
}

// checkState compares how a record ends with what captures and the case say.
func (k *checker) checkState(rec *record.Record, u unit, last claim) {
	want, said := k.expected(u), ""
	if want != nil && want.branches != nil {
		k.checkBranches(rec, want)
		return
	}
	if want != nil {
		said = want.state
	}
	if want == nil && u.token == 0 && rec.State == record.Lost && rec.Loss != nil &&
		slices.Contains(k.r.c.SentAnew, rec.Loss.Node+" "+rec.Loss.Reason) {
		return
	}
	if said == "" {
		switch {
		case last.dir == out && k.r.topo.role(last.node, last.port) == "edge":
			said = string(record.Left)
		case last.dir == in:
			said = string(record.Delivered)
		default:
			said = "delivered or left, further on"
		}
	}
	if said == string(record.Lost) && k.isUnseen(rec, want, last) {
		return
	}
	if string(rec.State) != said {
		k.wrong(rec, "it is %s, want %s (%v)", rec.State, said, u)
		return
	}
	if want == nil || said != string(record.Lost) {
		if rec.LocalDrop != nil && !k.r.c.LocalDrops {
			k.wrong(rec, "a drop after delivery that nobody expects")
		}
		return
	}
	switch {
	case rec.Loss == nil:
		k.wrong(rec, "lost, without a place")
	case rec.Loss.Node != want.node:
		k.wrong(rec, "lost in %s, want %s", rec.Loss.Node, want.node)
	case want.why != "" && rec.Loss.Reason != "" && rec.Loss.Reason != want.why:
		k.wrong(rec, "lost for %s, want %s", rec.Loss.Reason, want.why)
	}
}

// isUnseen reports whether a record says of a loss only that the packet was last seen where it was
// lost, and this kernel ran no tracing program as it was dropped (docs/times-and-losses.md).
func (k *checker) isUnseen(rec *record.Record, want *Sent, last claim) bool {
	if rec.State != record.Expired || rec.Loss == nil || rec.Loss.Node != want.node || want.why == "" {
		return false
	}
	drops.Lock()
	defer drops.Unlock()
	if err := drops.Read(); err != nil {
		k.r.T.Logf("%v", err)
		return false
	}
	return drops.Blind(last.at.UnixNano(), k.r.end.UnixNano(), []string{want.why})
}

// expected is what the case says of a packet that it sent, nil if nothing. Answers and
// errors that carry the token have no word of it.
func (k *checker) expected(u unit) *Sent {
	if u.proto == 1 && u.icmpType != 8 || u.proto == 58 && u.icmpType != 128 {
		return nil
	}
	for _, s := range k.r.world.sent {
		if u.token != 0 && s.Token == u.token || u.token == 0 && s.tuple == u.tuple {
			return s
		}
	}
	return nil
}

// completeness: captures saw nothing at the domain's ports that the records do not say,
// as often.
func (k *checker) completeness() {
	for _, u := range slices.SortedFunc(maps.Keys(k.units), func(a, b unit) int {
		return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.String(), b.String()))
	}) {
		want := k.expected(u)
		k.beforeSource(u)
		if k.said[u] == nil && len(k.units[u]) == 0 {
			continue
		}
		if k.said[u] == nil {
			if k.fromInside(u) {
				k.r.fromInside++
			} else if want == nil || !want.none {
				k.unmeasured(u)
			}
			continue
		}
		if want != nil && want.none {
			k.wrong(nil, "%v has a record, and should have none", u)
		}
		for at, seen := range k.units[u] {
			if said := k.said[u][at]; said != len(seen) {
				k.wrong(nil, "%v passed %v %s, its records say %s", u, at, times(len(seen)), times(said))
			}
		}
	}
}

// beforeSource takes out what captures saw at places where nobody looks: under
// --carry header a packet that goes on has its source where it leaves its first node,
// and has no record if it never does.
func (k *checker) beforeSource(u unit) {
	if k.r.Mode != Header {
		return
	}
	for at := range k.units[u] {
		from := k.r.topo.role(at.node, at.port) == "edge" || k.r.topo.isMachine(k.r.topo.peer(at.node, at.port))
		if at.dir == in && k.said[u][at] == 0 && from {
			delete(k.units[u], at)
			k.r.beforeSource++
		}
	}
}

// fromInside reports whether a packet came from a node in the domain that is not attached:
// no source sees it, and it passes.
func (k *checker) fromInside(u unit) bool {
	var first *sighting
	for _, list := range k.units[u] {
		for _, s := range list {
			if first == nil || s.at.Before(first.at) {
				first = s
			}
		}
	}
	return first.dir == in && k.r.topo.role(first.node, first.port) == "internal"
}

// unmeasured notes a packet that has no record. Where the case names counters of what
// is not measured, they are held against the number of these.
func (k *checker) unmeasured(u unit) {
	k.r.unmeasured++
	if k.r.c.notMeasured() == 0 {
		k.wrong(nil, "no record of %v, seen at %d places", u, len(k.units[u]))
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}
