// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// The recorder in the background of a domain holds the lock of the one file and is named by the other. The third says
// what it does.
const (
	lockFile   = "record.lock"
	pidFile    = "record.pid"
	statusFile = "record.json"
	// LogFile is of the recorder in the background.
	LogFile = "record.log"
)

// ErrRunning says that the domain has a recorder in the background.
var ErrRunning = errors.New("a recorder of the domain runs in the background")

// Running is the recorder that runs in the background.
type Running struct {
	host.Process
	Dir string `json:"dir"`
}

// Find returns a domain's recorder in the background; nil: there is none.
func Find(name string) (*Running, error) {
	if err := statedir.CheckInRoot(domain.Dir(name)); err != nil {
		return nil, err
	}
	p, err := host.FindClaim(domain.File(name, lockFile), domain.File(name, pidFile))
	if err != nil || p.PID == 0 {
		return nil, err
	}
	r := &Running{Process: p}
	b, err := os.ReadFile(domain.File(name, statusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil // it begins, or ends
	}
	if err == nil {
		err = json.Unmarshal(b, &r.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("recorder of domain %s: %w", name, err)
	}
	return r, nil
}

// patience is how long a recorder may take to finish its files.
const patience = 10 * time.Second

// Await waits until a recorder whose domain was detached has ended, as it does by itself. One that does not is asked to,
// and then killed: files that are finished stay.
func (r *Running) Await(ctx context.Context) error {
	for end := time.Now().Add(patience); r.Alive() && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
	if !r.Alive() {
		return nil
	}
	return r.End(context.WithoutCancel(ctx), "recorder", patience, unix.SIGTERM, unix.SIGKILL)
}

// Claim makes the calling process the domain's recorder in the background.
func Claim(name, dir string) (*host.Claim, error) {
	c, err := host.NewClaim("recorder", domain.File(name, lockFile), domain.File(name, pidFile))
	if errors.Is(err, statedir.ErrLocked) {
		return nil, ErrRunning
	}
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(dir)
	if err == nil {
		err = renameio.WriteFile(domain.File(name, statusFile), b, 0o600)
	}
	if err != nil {
		c.Release()
		return nil, fmt.Errorf("recorder of domain %s: %w", name, err)
	}
	return c, nil
}
