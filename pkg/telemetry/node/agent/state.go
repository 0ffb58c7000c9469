// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/google/renameio/v2"

	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/telemetry/send"
)

// State is what an agent says of itself, once a second.
type State struct {
	PID       int       `json:"pid"`
	Since     time.Time `json:"since"`
	Collector string    `json:"collector"`
	Address   string    `json:"address"`
	Reports   uint64    `json:"reports"`   // individual ones that were made
	Datagrams uint64    `json:"datagrams"` // with them, that were to be sent
	send.Counts
	Unsent      uint64    `json:"unsent"` // datagrams for which there was no socket
	LastRefused time.Time `json:"last_refused,omitzero"`
	// Troubles are what the agent's process says (resident.Process), and in no file.
	Troubles []resident.Trouble `json:"troubles,omitempty"`
}

const stateFile = "agent.json"

// ReadState returns what the agent has said last; the zero State if none ever has.
func ReadState(name string) (s State, err error) {
	b, err := os.ReadFile(node.File(name, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read what the INT agent says: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read what the INT agent says: %w", err)
	}
	return s, nil
}

func (a *Agent) state() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := State{
		PID: os.Getpid(), Since: a.since.UTC(), Collector: a.domain.Options.Collector, Address: a.domain.Options.Address.String(),
		Reports: a.reports.count, Counts: a.counts(), Unsent: a.lost,
	}
	s.Datagrams = s.Sent + s.Failed + s.Unsent
	if s.Counts.LastRefused > 0 {
		s.LastRefused = time.Unix(0, s.Counts.LastRefused).UTC()
	}
	return s
}

func (a *Agent) saveState() error {
	b, err := json.Marshal(a.state())
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if _, err := os.Stat(node.Dir(a.name)); errors.Is(err, fs.ErrNotExist) || bytes.Equal(b, a.written) {
		return nil // the domain was detached, or nothing is new
	}
	if err := renameio.WriteFile(node.File(a.name, stateFile), b, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	a.written = b
	return nil
}

// note keeps what the agent cannot do, and logs it once; err is nil if it has worked.
func (a *Agent) note(what string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.once.Warn(what, err)
}
