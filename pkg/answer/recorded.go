// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/answer/note"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Recorded are packets that were kept in segments: a Source. It may be read any number of times.
type Recorded struct {
	Path string
	*recording.Recording
	told int            // how many damages were told
	in   *packet.Member // of several domains that are asked at once; nil: it is asked alone
}

// Abilities implements Source.
func (r *Recorded) Abilities() Abilities { return Abilities{Source: "the recording", Can: OfAll} }

// WallOffset is from the stamps of its packets to Unix time, ns.
func (r *Recorded) WallOffset() int64 { return r.Scope.WallOffset() }

// Interfaces are those of a node, as they were at the end.
func (r *Recorded) Interfaces(node uint16) map[int]topo.Interface { return r.Last.Interfaces[node] }

func (r *Recorded) isNow() bool { return false }
func (r *Recorded) streams()    {}

// named is what a node of the domain is called.
func (r *Recorded) named(node string) string {
	if r.in == nil {
		return node
	}
	return r.in.Qualified(node)
}

// ReadRecorded opens a directory of segments, or one of them alone.
func ReadRecorded(path string) (*Recorded, error) {
	r, err := recording.Open(path)
	if err != nil {
		return nil, err
	}
	return &Recorded{Path: path, Recording: r}, nil
}

// Span is when the first and the last packet were sent; both are zero if there is none.
func (r *Recorded) Span() (first, last time.Time) { return r.Dir.Span() }

// Since implements File.
func (r *Recorded) Since() time.Time {
	first, _ := r.Dir.Span()
	return first
}

// Name implements File.
func (r *Recorded) Name() string { return filepath.Base(r.Path) }

// Now implements File: it is just behind the last packet.
func (r *Recorded) Now() time.Time {
	_, last := r.Dir.Span()
	if last.IsZero() {
		return last
	}
	return last.Add(time.Nanosecond)
}

// Of implements Singles: it is the domain as it was at the end.
func (r *Recorded) Of() *domain.Domain { return r.Last.Domain }

// Covers says from when to when.
func (r *Recorded) Covers() note.RecordingCovers {
	first, last := r.Span()
	return note.RecordingCovers{Path: r.Path, First: first, Last: last}
}

// Missing says what was not finished, and so is not read.
func (r *Recorded) Missing() []Note {
	if u := r.Dir.Unfinished(); u.PID != 0 || len(u.Files) > 0 || u.Nothing {
		return []Note{note.RecordingUnfinished{Path: r.Path, Unfinished: u}}
	}
	return nil
}

// OpenRecorded opens what was recorded in a directory, or in one segment, if that can have what is selected: the
// error is *NoSuchNode if not.
func OpenRecorded(path string, s *Selection) (*Sources, []Note, error) {
	r, err := ReadRecorded(path)
	if err != nil {
		return nil, nil, err
	}
	return r.Open(s)
}

// Open makes a source of it, if it can have what is selected.
func (r *Recorded) Open(s *Selection) (*Sources, []Note, error) {
	own := &Recorded{Path: r.Path, Recording: r.Again()}
	all := &Sources{list: []Source{own}}
	if err := all.check(s); err != nil {
		return nil, nil, err
	}
	return all, own.damage(), nil
}

// damage says what could not be read, each once: some of it is found only as packets are read.
func (r *Recorded) damage() (notes []Note) {
	list := r.Dir.Damage()
	notes = DamageNotes(list[r.told:])
	r.told = len(list)
	return notes
}

// mostDamages are named one by one. A directory may be full of what is no recording.
const mostDamages = 8

// DamageNotes say what of a recording cannot be read.
func DamageNotes(list []segments.Damage) (notes []Note) {
	if len(list) > mostDamages {
		return []Note{note.SegmentDamaged{Damage: list[0], Others: len(list) - 1}}
	}
	for _, d := range list {
		notes = append(notes, note.SegmentDamaged{Damage: d})
	}
	return notes
}

// HasNode implements Source.
func (r *Recorded) HasNode(name string) bool {
	return r.Last.Domain == nil || strings.HasPrefix(name, "int-") ||
		slices.ContainsFunc(namedNodes(r.Last.Domain), func(n namedNode) bool { return r.named(n.name) == name })
}

// Lacks implements Source: what was not measured, or not kept.
func (r *Recorded) Lacks() []Note {
	return append(append(NotMeasuredNotes(r.Last.Counters), NotKeptNotes(r.Last.NotKept)...), r.Unended()...)
}

// Unended says that the end of the recording is missing, while nobody is seen to record: the last packets are missing
// with it. One file of a recording has no end of its own.
func (r *Recorded) Unended() []Note {
	u := r.Dir.Unfinished()
	switch {
	case u.PID != 0 || r.Dir.IsFile():
		return nil
	case len(u.Files) > 0:
		return []Note{note.RecordingUnfinished{Path: r.Path, Unfinished: u}}
	case r.Last.Open > 0:
		return []Note{note.RecordingWithoutEnd{Path: r.Path, Recorders: r.Last.Open}}
	}
	return nil
}

// NotKeptNotes say how many packets were not kept, by cause.
func NotKeptNotes(packets map[string]uint64) (notes []Note) {
	for _, cause := range SortedKeys(packets) {
		notes = append(notes, note.NotKept{Packets: packets[cause], Cause: cause})
	}
	return notes
}

// each calls fn for every packet that is selected, but for its number, oldest first. What a node has said of a packet
// that was kept twice, by a recorder and by a collector, is of the one that fn gets. It is valid until fn returns.
func (r *Recorded) each(ctx context.Context, s *Selection, fn func(*segments.Packet) error) error {
	return r.Read(ctx, s.Since, s.Until, func(p *segments.Packet) error {
		if !s.Match(&p.Packet, r.Scope) {
			return nil
		}
		return fn(p)
	})
}

// Count implements Source.
func (r *Recorded) Count(ctx context.Context, q *Question, to *Counts) ([]Note, error) {
	to.From(r.Scope)
	var window []*segments.Packet // the newest
	err := r.each(ctx, q.Selection, func(p *segments.Packet) error {
		switch {
		case p.State == record.InFlight: // a collector has met it under way
		case q.Last > 0:
			window = keepLast(window, recording.Cloned(p), q.Last)
		default:
			to.Add(&p.Packet)
		}
		return nil
	})
	for _, p := range newestOf(window, q.Last) {
		to.Add(&p.Packet)
	}
	return r.damage(), r.failed(err)
}

// failed says of an error which recording it is about.
func (r *Recorded) failed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("read recording %s: %w", r.Path, err)
}

// keepLast appends to a list of which the last n are wanted.
func keepLast[T any](list []T, one T, n int) []T {
	if list = append(list, one); len(list) >= 2*n+1000 {
		list = slices.Delete(list, 0, len(list)-n)
	}
	return list
}

// newestOf are the last n.
func newestOf[T any](list []T, n int) []T { return list[max(len(list)-n, 0):] }

// Records implements Source.
func (r *Recorded) Records(ctx context.Context, s *Selection, fn func(*record.Record) error) (read Read, err error) {
	incomplete := uint64(0)
	var failed error
	fn = s.first(fn)
	give := func(rec *record.Record) error {
		if lacksHops(rec) {
			incomplete += uint64(rec.Segs)
		}
		failed = fn(rec)
		return failed
	}
	var window []*record.Record
	err = r.each(ctx, s, func(p *segments.Packet) error {
		rec := r.Record(p)
		if s.Last == 0 {
			return give(rec)
		}
		window = keepLast(window, rec, s.Last)
		return nil
	})
	if failed == nil && err != nil {
		return read, r.failed(err)
	}
	for _, rec := range newestOf(window, s.Last) {
		if failed = give(rec); failed != nil {
			break
		}
	}
	if failed != nil && !errors.Is(failed, errEnough) {
		return read, failed
	}
	read.Notes = r.damage()
	if r.Last.Domain != nil {
		read.Incomplete = incomplete
	}
	return read, nil
}

// WhyEmpty implements Source: it says what the recording covers.
func (r *Recorded) WhyEmpty(ctx context.Context, s *Selection) []Note {
	notes := append([]Note{r.Covers()}, r.Missing()...)
	ended := make(map[record.State]int)
	err := r.Read(ctx, s.Since, s.Until, func(p *segments.Packet) error {
		if s.matchAnyState(&p.Packet, r.Scope) && !s.Match(&p.Packet, r.Scope) {
			ended[p.State] += p.Segs
		}
		return nil
	})
	if len(ended) > 0 {
		notes = append(notes, note.OtherStates{Packets: ended, Expired: s.Wants(record.Expired)})
	}
	return appendWarning(notes, err)
}

// AddressesOf implements File.
func (r *Recorded) AddressesOf(values []string) ([]string, error) {
	return addressesOf(values, func(name string) ([]netip.Addr, error) {
		if r.Last.Domain == nil {
			return nil, domain.ErrNotAttached
		}
		var list []netip.Addr
		known := false
		for _, n := range namedNodes(r.Last.Domain) {
			if n.name != name {
				continue
			}
			known = true
			list = append(list, r.owned(n.id)...)
		}
		switch {
		case !known:
			return nil, noSuchNode(name, r.Last.Domain)
		case len(list) == 0:
			return nil, &NoAddress{name}
		}
		return list, nil
	})
}

// owned are the addresses that a node, or a virtual machine, had.
func (r *Recorded) owned(node uint16) (list []netip.Addr) {
	for _, i := range r.Last.Interfaces[node] {
		for _, prefix := range i.Addresses {
			if addr := prefix.Addr(); !addr.IsLoopback() && !addr.IsLinkLocalUnicast() && !slices.Contains(list, addr) {
				list = append(list, addr)
			}
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	if vm := r.Last.Domain.VMByID(node); vm != nil {
		list = append(list, vm.Addrs...)
	}
	return list
}

// links are those of the domain, as it was last.
func (r *Recorded) links(context.Context) *placenow.Links {
	if r.Last.Domain == nil {
		return nil
	}
	return placenow.NewLinksOf(r.Last.Domain, func(node uint16) map[int]topo.Interface { return r.Last.Interfaces[node] })
}

// SortedKeys are those with most first.
func SortedKeys(counts map[string]uint64) []string {
	var list []string
	for key := range counts {
		list = append(list, key)
	}
	slices.SortFunc(list, func(x, y string) int { return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y)) })
	return list
}
