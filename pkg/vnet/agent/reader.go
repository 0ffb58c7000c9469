// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/host/symbols"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Reader reads what a domain has measured. Any number of processes may have one;
// none of them disturbs another, and no agent is needed. It is for one goroutine.
type Reader struct {
	Domain    *domain.Domain
	Maps      *backpack.Maps
	Decoder   *backpack.Decoder
	Collector *aggregate.Collector // of OpenReader only

	symbols *symbols.Table
	file    statedir.Stamp // of the description that was read
	moves   statedir.Stamp // the same of addresses that moved
}

// OpenRing opens the domain for reading the ring alone: Collector is nil. It
// returns domain.ErrNotAttached if there is no such domain. The caller closes it.
func OpenRing(name string) (*Reader, error) {
	r := &Reader{symbols: symbols.Load()}
	// Before reading, so that a later change is noticed. Load explains errors.
	r.file.Changed(domain.File(name, domain.Description))
	var err error
	if r.Domain, err = domain.Load(name); err != nil {
		return nil, err
	}
	if r.Maps, err = backpack.Open(r.Domain); err != nil {
		return nil, err
	}
	r.Decoder = backpack.NewDecoder(r.Domain, r.symbols)
	r.UpdateMoves()
	return r, nil
}

// UpdateMoves reads which addresses have moved, if that has changed. A file that cannot be
// read says nothing: the agent, which writes it, tells why. One that is not there says nothing
// either: it goes with the domain, and packets that are still to be read were sent before.
func (r *Reader) UpdateMoves() {
	path := domain.MovesFile(r.Domain.Name)
	_ = r.moves.IfChanged(path, func() error {
		if _, err := os.Stat(path); err != nil {
			return err
		}
		moves, err := domain.LoadMoves(r.Domain)
		if err == nil {
			r.Decoder.SetMoves(moves)
		}
		return err
	})
}

// OpenReader is OpenRing and the aggregates: it continues from the domain's
// snapshot. note, if not empty, says why that could not be used; counts then
// begin with the oldest packet of the ring.
func OpenReader(name string) (r *Reader, note string, err error) {
	if r, err = OpenRing(name); err != nil {
		return nil, "", err
	}
	if note, err = r.open(); err != nil {
		r.Maps.Close()
		return nil, "", err
	}
	return r, note, nil
}

// open sets Collector to what the snapshot holds.
func (r *Reader) open() (note string, err error) {
	r.Collector, note, err = aggregate.Open(r.Maps, r.Decoder, r.Domain.Epoch,
		domain.File(r.Domain.Name, "aggregates"), backpack.FollowOptions{Refresh: r.Refresh, Moves: r.UpdateMoves})
	if err != nil {
		return "", fmt.Errorf("open aggregates: %w", err)
	}
	return note, nil
}

// Collect sets Collector to all that has ended up to now, as it stands: from the
// newest snapshot and from the ring. It may be called again; the Collector must not
// be saved. note is as OpenReader's.
func (r *Reader) Collect() (note string, err error) {
	if note, err = r.open(); err != nil {
		return "", err
	}
	r.Collector.AsItStands()
	if err := r.Collector.Poll(); err != nil {
		return "", fmt.Errorf("read the ring: %w", err)
	}
	return note, nil
}

// Close ends reading.
func (r *Reader) Close() error { return r.Maps.Close() }

// SymbolsErr says why names of kernel functions or drop reasons are missing.
func (r *Reader) SymbolsErr() error { return r.symbols.Err() }

// Refresh reads the description again; the follower asks for it when it meets a
// port that it does not know.
func (r *Reader) Refresh() (*domain.Domain, error) {
	d, err := domain.Load(r.Domain.Name)
	if err != nil {
		return nil, err
	}
	if d.Epoch != r.Domain.Epoch {
		return nil, fmt.Errorf("domain %q was attached anew: the one before is %w", d.Name, domain.ErrNotAttached)
	}
	return d, nil
}

// Update follows changes of the description, and of addresses. It returns
// domain.ErrNotAttached if the domain that was opened is gone.
func (r *Reader) Update() error {
	r.UpdateMoves()
	return r.file.IfChanged(domain.File(r.Domain.Name, domain.Description), func() error {
		d, err := r.Refresh()
		if err != nil {
			return err
		}
		r.Domain = d
		r.Decoder.SetDomain(d)
		return nil
	})
}
