// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// Layout says how the tables of a program hold a State. It is what differs between P4 programs.
type Layout interface {
	// Tables are those that are INT's alone. All others, and their entries, are left alone.
	Tables() []Table
	// Sessions are the clone sessions that are INT's alone.
	Sessions() []uint32
	// Needs are names of actions and counters without which the program is another one.
	Needs() []string
	// Abilities are what devices with the program can do.
	Abilities(p *Program) control.Abilities
	// Commands are all entries of a device that holds a State, as Program.Commands reads them. They have a default
	// action for each of Tables that has no key.
	Commands(want *control.State) ([]string, error)
	// Counters name, for each counter, what its indexes count. Those without a name are not read.
	Counters() map[string][]string
}

// Beginner is a Layout that wants to know the switch's program before it is asked for Commands.
type Beginner interface {
	// Begin refuses a program that the layout does not fit.
	Begin(p *Program) error
}

// Table is one of a Layout.
type Table struct {
	Name  string
	Stage Stage
	// Guards says that the table takes INT off packets, or says how packets that bear it are known. Nothing is watched
	// while something of it changes or goes.
	Guards bool
}

// Stage says in which order tables are written, and in reverse order emptied: so that wherever that ends, what
// gives INT to packets is there only while what takes it off is.
type Stage int

// The stages.
const (
	Sinks Stage = iota
	Sources
	Watchlist
	stages
)
