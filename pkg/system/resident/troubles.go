// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// What an agent cannot do. Where the disk is full it can write neither its log nor any other file,
// so it keeps this in its memory, in a file that has no disk (memfd). Others find that among what
// the process has open. It ends with the agent: nothing that is out of date remains.

// Trouble is something that an agent fails to do again and again.
type Trouble struct {
	What  string    `json:"what"` // as in "cannot follow the topology"
	Error string    `json:"error"`
	Full  bool      `json:"disk_full,omitempty"` // for lack of room on the disk of the state directory
	Since time.Time `json:"since"`
}

// RenewLease is what an agent fails to do while its lease runs out.
const RenewLease = "renew the lease"

const (
	troublesName  = "radar-troubles"
	maxTroubles   = 16
	maxError      = 160                // bytes of the text of an error; in JSON it can be six times as long
	troublesBytes = maxTroubles * 2048 // of the file
)

// Troubles is what the loops of one agent fail to do, for others to read (Process.Troubles). nil keeps nothing. Its
// methods may be called from any goroutine.
type Troubles struct {
	mu   sync.Mutex
	list []Trouble
	file *os.File
}

// NewTroubles makes an empty one. The caller closes it.
func NewTroubles() (*Troubles, error) {
	fd, err := unix.MemfdCreate(troublesName, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memory for the agent's troubles: %w", err)
	}
	t := &Troubles{file: os.NewFile(uintptr(fd), troublesName)}
	if err := t.write(); err != nil {
		t.file.Close()
		return nil, err
	}
	return t, nil
}

// Close ends it: nothing that is out of date remains.
func (t *Troubles) Close() {
	if t != nil {
		t.file.Close()
	}
}

// set notes what became of something that a loop does; err is nil if it has worked.
func (t *Troubles) set(what string, err error) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.list, func(x Trouble) bool { return x.What == what })
	switch {
	case err == nil && i < 0:
		return nil
	case err == nil:
		t.list = slices.Delete(t.list, i, i+1)
	case i < 0 && len(t.list) >= maxTroubles:
		return nil // the first ones say enough
	default:
		if i < 0 {
			i = len(t.list)
			t.list = append(t.list, Trouble{What: what, Since: time.Now()})
		}
		text := causes(err)
		t.list[i].Error = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
		t.list[i].Full = errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
	}
	return t.write()
}

// write writes all of it at once, always as many bytes: who reads meanwhile finds no end of
// something else.
func (t *Troubles) write() error {
	b, err := json.Marshal(t.list)
	if err != nil {
		return fmt.Errorf("note the agent's troubles: %w", err)
	}
	if len(b) > troublesBytes {
		return fmt.Errorf("note the agent's troubles: %d bytes", len(b))
	}
	page := bytes.Repeat([]byte{' '}, troublesBytes)
	copy(page, b)
	if _, err := t.file.WriteAt(page, 0); err != nil {
		return fmt.Errorf("note the agent's troubles: %w", err)
	}
	return nil
}

// Troubles is what a domain's agent cannot do, in the order in which it began. None if the process
// has ended.
func (p Process) Troubles() ([]Trouble, error) {
	dir := fmt.Sprintf("/proc/%d/fd/", p.PID)
	fds, err := os.ReadDir(dir)
	if host.HasEnded(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look what troubles agent process %d: %w", p.PID, err)
	}
	for _, e := range fds {
		target, err := os.Readlink(dir + e.Name())
		if _, number := strconv.Atoi(e.Name()); err != nil || number != nil || !strings.HasPrefix(target, "/memfd:"+troublesName+" ") {
			continue
		}
		list, err := readTroubles(dir + e.Name())
		if host.HasEnded(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what troubles agent process %d: %w", p.PID, err)
		}
		return list, nil
	}
	return nil, nil // an agent of a radar that did not tell
}

// readTroubles reads the file again if the agent was writing it just then.
func readTroubles(path string) (list []Trouble, err error) {
	for range 10 {
		if list, err = tryTroubles(path); err == nil || host.HasEnded(err) {
			return list, err
		}
		time.Sleep(time.Millisecond)
	}
	return nil, err
}

func tryTroubles(path string) (list []Trouble, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, troublesBytes))
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(b, &list)
}
