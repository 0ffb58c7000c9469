// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Status is what a recorder says of itself.
type Status struct {
	Dir       string            `json:"dir"`
	NotKept   map[string]uint64 `json:"not_kept,omitempty"`   // packets, by cause
	LastError string            `json:"last_error,omitempty"` // why the disk did not take what was to be kept
	Kept      *uint64           `json:"kept,omitempty"`       // packets, once the files are finished
}

// Running is the recorder that runs in the background.
type Running struct {
	host.Process
	Status
	Ended bool     `json:"-"` // Await had to end it
	file  *os.File // with its status; nil: it has said none yet
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
	r.file, err = os.Open(domain.File(name, statusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil // it begins, or ends
	}
	if err == nil {
		err = r.read()
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("recorder of domain %s: %w", name, err)
	}
	return r, nil
}

// mostTries is how often a status is read that is being written.
const mostTries = 100

// read reads the status as it is now: its file is written in place, so that it can be read when the domain is gone.
func (r *Running) read() (err error) {
	for range mostTries {
		var b []byte
		if b, err = io.ReadAll(io.NewSectionReader(r.file, 0, 1<<20)); err != nil {
			return err
		}
		var s Status
		if err = json.Unmarshal(b, &s); err == nil {
			r.Status = s
			return nil
		}
	}
	return err
}

// Close ends what Find began; the recorder goes on. nil has nothing to close.
func (r *Running) Close() {
	if r != nil && r.file != nil {
		r.file.Close()
	}
}

// patience is how long a recorder may take to finish its files.
const patience = 5 * time.Second

// Await waits until a recorder whose domain was detached has ended, as it does by itself. One that does not is asked to,
// and then killed: files that are finished stay. The status is then what it has said last.
func (r *Running) Await(ctx context.Context) error {
	for end := time.Now().Add(patience); r.Alive() && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
	var err error
	if r.Ended = r.Alive(); r.Ended {
		err = r.End(context.WithoutCancel(ctx), "recorder", patience, unix.SIGTERM, unix.SIGKILL)
	}
	if r.file != nil {
		err = errors.Join(err, r.read()) // who was asked to end may have finished
	}
	return err
}

// Claim is the role of a domain's recorder in the background.
type Claim struct {
	*host.Claim
	file *os.File
	size int // of the longest status
}

// NewClaim makes the calling process the domain's recorder in the background.
func NewClaim(name, dir string) (*Claim, error) {
	role, err := host.NewClaim("recorder", domain.File(name, lockFile), domain.File(name, pidFile))
	if errors.Is(err, statedir.ErrLocked) {
		return nil, ErrRunning
	}
	if err != nil {
		return nil, err
	}
	c := &Claim{Claim: role}
	b, err := json.Marshal(Status{Dir: dir})
	if err == nil {
		err = renameio.WriteFile(domain.File(name, statusFile), b, 0o600)
	}
	if err == nil {
		c.size = len(b)
		c.file, err = os.OpenFile(domain.File(name, statusFile), os.O_WRONLY, 0)
	}
	if err != nil {
		role.Release()
		return nil, fmt.Errorf("recorder of domain %s: %w", name, err)
	}
	return c, nil
}

// SetStatus publishes the recorder's status. Who has found the recorder can read it when the domain is gone.
func (c *Claim) SetStatus(s Status) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	c.size = max(c.size, len(b))
	_, err = c.file.WriteAt(append(b, bytes.Repeat([]byte(" "), c.size-len(b))...), 0)
	return err
}

// Release gives the role back.
func (c *Claim) Release() {
	c.file.Close()
	c.Claim.Release()
}
