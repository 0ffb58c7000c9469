// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
)

// lineup is a line of nodes, and the neighbours that are measured on it in turn.
type lineup struct {
	*network
	radar *radar
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
	if u.network, err = newLine(routers); err != nil {
		return nil, err
	}
	u.undo = append(u.undo, u.network.close)
	if u.radar, err = newRadarCommand(ctx, o); err != nil {
		return nil, err
	}
	u.undo = append(u.undo, u.radar.close)
	var closeAll func()
	if u.list, u.notes, closeAll, err = newNeighbours(u.radar, attachFlags...); err != nil {
		return nil, err
	}
	u.undo = append(u.undo, closeAll)
	return u, nil
}

func (u *lineup) close() {
	for i := len(u.undo) - 1; i >= 0; i-- {
		u.undo[i]()
	}
}

// inTurn runs f round after round with each neighbour on the line, whose number it gets.
func (u *lineup) inTurn(ctx context.Context, o *options, rounds int, f func(k int) error) error {
	for round := range rounds {
		o.progress("  round %d of %d", round+1, rounds)
		for k, nb := range u.list {
			if err := with(ctx, nb, u.network, func() error { return f(k) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// with runs f while a network has a neighbour on it.
func with(ctx context.Context, nb neighbour, n *network, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	off, err := nb.on(ctx, n)
	if err != nil {
		return fmt.Errorf("%s: %w", nb.name, err)
	}
	if err := errors.Join(f(), off()); err != nil {
		return fmt.Errorf("%s: %w", nb.name, err)
	}
	return nil
}
