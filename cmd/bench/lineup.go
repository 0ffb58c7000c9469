// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/vnetradar/radar/cmd/bench/network"
)

// lineup is a line of nodes, and the neighbours that are measured on it in turn.
type lineup struct {
	*network.Network
	radar *radar // as it is
	list  []neighbour
	notes []string // what is missing
	undo  []func()
}

// newLineup has a line with so many routers. Whoever calls closes it.
func newLineup(ctx context.Context, o *options, routers int, attachFlags ...string) (_ *lineup, err error) {
	u := &lineup{}
	defer func() {
		if err != nil {
			u.close()
		}
	}()
	if u.Network, err = network.NewLine(routers); err != nil {
		return nil, err
	}
	u.undo = append(u.undo, u.Network.Close)
	builds, err := u.radars(ctx, o)
	if err != nil {
		return nil, err
	}
	var closeAll func()
	if u.list, u.notes, closeAll, err = newNeighbours(builds, attachFlags...); err != nil {
		return nil, err
	}
	u.undo = append(u.undo, closeAll)
	return u, nil
}

// namedRadar is a build of the command.
type namedRadar struct {
	name string
	*radar
}

// radars are the command as it is, the others that the user names, and one with each of the objects that the user names.
func (u *lineup) radars(ctx context.Context, o *options) (builds []namedRadar, err error) {
	if u.radar, err = newRadarCommand(ctx, o); err != nil {
		return nil, err
	}
	u.undo = append(u.undo, u.radar.close)
	builds = []namedRadar{{builtIn().name, u.radar}}
	for _, other := range o.others {
		r, err := newRadarDir(other.bin)
		if err != nil {
			return nil, err
		}
		u.undo = append(u.undo, r.close)
		builds = append(builds, namedRadar{other.name, r})
	}
	for _, object := range o.objects {
		r, err := newRadarOf(ctx, object)
		if err != nil {
			return nil, err
		}
		u.undo = append(u.undo, r.close)
		builds = append(builds, namedRadar{object.name, r})
	}
	return builds, nil
}

func (u *lineup) close() {
	for i := len(u.undo) - 1; i >= 0; i-- {
		u.undo[i]()
	}
}

// inTurn runs f round after round with each neighbour on the line, for packets to each of the nodes. It gets the numbers
// of both.
func (u *lineup) inTurn(ctx context.Context, o *options, rounds int, ends []int, f func(k, i int) error) error {
	for round := range rounds {
		o.progress("  round %d of %d", round+1, rounds)
		for k, nb := range u.list {
			if err := u.toEach(ctx, nb, ends, func(i int) error { return f(k, i) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// toEach runs f for packets to each of the nodes while the line has a neighbour on it.
func (u *lineup) toEach(ctx context.Context, nb neighbour, ends []int, f func(i int) error) error {
	if !nb.perPath {
		return with(ctx, nb, u.Network, ends[len(ends)-1], func() error {
			for i := range ends {
				if err := f(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i, end := range ends {
		if err := with(ctx, nb, u.Network, end, func() error { return f(i) }); err != nil {
			return err
		}
	}
	return nil
}

// with runs f while a network has a neighbour on it.
func with(ctx context.Context, nb neighbour, n *network.Network, last int, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	off, err := nb.on(ctx, n, last)
	if err != nil {
		return fmt.Errorf("%s: %w", nb.name, err)
	}
	if err := errors.Join(f(), off()); err != nil {
		return fmt.Errorf("%s: %w", nb.name, err)
	}
	return nil
}
