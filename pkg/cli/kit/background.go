// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"errors"
	"log/slog"

	"github.com/vnetradar/radar/pkg/host/background"
)

// Background is a process that another one has started in the background, and waits for until it works.
type Background struct {
	Log  *slog.Logger // of bounded size
	Told bool         // that it works

	readyFD int
}

// InBackground runs one. readyFD is where the other process waits: run calls Ready when it works. An error before that is
// told there, too.
func (k *Kit) InBackground(readyFD int, run func(*Background) error) error {
	k.Stderr = BoundLog(k.Stderr)
	b := &Background{Log: slog.New(slog.NewTextHandler(k.Stderr, nil)), readyFD: readyFD}
	err := run(b)
	if err != nil && !b.Told {
		return errors.Join(err, background.TellReady(readyFD, err))
	}
	return err
}

// Ready tells the other process that this one works.
func (b *Background) Ready() {
	b.Told = true
	if err := background.TellReady(b.readyFD, nil); err != nil {
		b.Log.Warn("tell that it works", "error", err)
	}
}
