// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/loader"
)

// Kind is a sort of attached system. Its domains have a directory of state, with their description and its lock, and a
// directory of pins: both are called KIND/DOMAIN, so that no kind takes a name from the domains of another one.
type Kind struct {
	Name     string // such as "int"
	Title    string // what messages call one of its domains: "INT domain"
	Command  string // what stands before attach and detach: "int ", or nothing
	Operands string // what attach is given: "NODE..."
	Version  int    // of descriptions and of pins: a domain of another one can only be detached
	Layer    Layer  // its programs at ports
	Prefix   string // what names of its maps in the kernel begin with

	// Former is where the state of a domain was in versions of before, if it was elsewhere: such a domain stays there until
	// it is detached.
	Former func(name string) string
}

// Description is the file that describes a domain.
const Description = "domain.json"

// DefaultName is the domain that commands use when none is named.
const DefaultName = "default"

// The errors of Load, and of those who read what a description says.
var (
	// ErrNotAttached: there is no such domain on this machine.
	ErrNotAttached = errors.New("not attached")
	// ErrHalfAttached: a part of the domain is missing. Such an error is ErrNotAttached, too, and says what to do.
	ErrHalfAttached = errors.New("half attached")
	// ErrDamaged: the description makes no sense. Detaching works.
	ErrDamaged = errors.New("damaged")
	// ErrOtherVersion: only the radar that has attached the domain understands its maps.
	ErrOtherVersion = errors.New("of another radar")
)

// IsAbsent reports whether err says that there is nothing at all of a domain.
func IsAbsent(err error) bool {
	return errors.Is(err, ErrNotAttached) && !errors.Is(err, ErrHalfAttached)
}

type halfError struct{ text string }

func (e *halfError) Error() string { return e.text }
func (e *halfError) Is(target error) bool {
	return target == ErrNotAttached || target == ErrHalfAttached
}

// Dir is the state directory of a domain (0700).
func (k Kind) Dir(name string) string {
	if k.Former != nil {
		if dir := k.Former(name); isThere(filepath.Join(dir, Description)) {
			return dir
		}
	}
	return filepath.Join(k.parent(), name)
}

func (k Kind) parent() string { return filepath.Join(statedir.Root(), k.Name) }

// File is a file of the domain's state, such as Description.
func (k Kind) File(name, base string) string { return filepath.Join(k.Dir(name), base) }

// PinDir is where the domain's maps and links are pinned (0700).
func (k Kind) PinDir(name string) string { return filepath.Join(hook.BPFFS, "radar", k.Name, name) }

// Kept says which domain's pins a process may hold.
func (k Kind) Kept(name string) loader.Kept {
	return loader.Kept{Pins: k.PinDir(name), State: k.Dir(name), Title: k.title(name), Detach: k.detach(name)}
}

func (k Kind) title(name string) string { return fmt.Sprintf("%s %q", k.Title, name) }

func (k Kind) detach(name string) string {
	return fmt.Sprintf("«%sdetach ‹domain› %s»", k.Command, name)
}

// HowToAttach is the command that attaches nodes to a domain.
func (k Kind) HowToAttach(name string) string {
	domain := ""
	if name != DefaultName {
		domain = " ‹domain› " + name
	}
	return fmt.Sprintf("«%sattach%s %s»", k.Command, domain, k.Operands)
}

// Load reads the description of a domain. check, if not nil, says what in it makes no sense. Errors: ErrNotAttached,
// ErrHalfAttached, ErrDamaged; ErrOtherVersion: what is returned was not checked, and can be detached only.
func Load[T any](k Kind, name string, check func(*T) error) (*T, error) {
	b, err := k.read(name)
	if err != nil {
		return nil, err
	}
	return Decode(k, name, b, check)
}

// Decode is Load of a description that was read. Each says of which domain and version it is, as "name" and "version".
func Decode[T any](k Kind, name string, b []byte, check func(*T) error) (*T, error) {
	var head struct {
		Name    string `json:"name"`
		Version int    `json:"version"`
	}
	d := new(T)
	err := json.Unmarshal(b, &head)
	if whole := json.Unmarshal(b, d); err == nil && head.Version == k.Version { // another version's fields may have other types
		err = whole
	}
	if err == nil && head.Version != k.Version {
		itself, _ := json.Marshal(map[string]string{"name": name}) // paths are made of it, whatever such a description says
		_ = json.Unmarshal(itself, d)
		return d, fmt.Errorf("%s is %w: its layout is %d, this radar knows %d (detach it with: %s)", k.title(name), ErrOtherVersion, head.Version, k.Version, k.detach(name))
	}
	if err == nil && head.Name != name {
		err = fmt.Errorf("it is of a domain %q", head.Name)
	}
	if err == nil && check != nil {
		err = check(d)
	}
	if err != nil {
		return nil, k.Damaged(name, err)
	}
	return d, nil
}

// read returns the description of a domain. What lies in a directory that others can write to is not read: it names
// processes that get signals, and programs. Errors: ErrNotAttached, ErrHalfAttached.
func (k Kind) read(name string) ([]byte, error) {
	if err := statedir.CheckDomain(name); err != nil {
		return nil, fault.Usage.Errorf("%w", err)
	}
	if err := statedir.CheckInRoot(k.Dir(name)); err != nil {
		return nil, err
	}
	b, err := statedir.ReadFile(k.File(name, Description))
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			err = fmt.Errorf("read description of %s: %w", k.title(name), err)
		}
		return b, err
	}
	if !isThere(k.PinDir(name)) {
		return nil, fmt.Errorf("%s is %w (attach nodes with: %s)%s", k.title(name), ErrNotAttached, k.HowToAttach(name), k.others(name))
	}
	if other, is := errors.AsType[*loader.Elsewhere](k.Kept(name).HeldElsewhere()); is {
		return nil, &halfError{other.Ask()}
	}
	return nil, k.Half(name, "its programs are pinned in "+k.PinDir(name)+", its description is gone from "+k.Dir(name))
}

// others names the domains that are attached, and the one that may be meant: the only one, or one of a like name.
func (k Kind) others(name string) string {
	names, err := k.List()
	if err != nil || len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	meant := fault.Nearest(name, names)
	if len(names) == 1 {
		meant = names[0]
	}
	text := "; attached are: " + strings.Join(names, ", ")
	if meant != "" {
		text += fmt.Sprintf(" (did you mean ‹domain› %s?)", meant)
	}
	return text
}

// Half says what to do with a domain of which a part is missing: an attach was killed, a reboot or another program
// removed something.
func (k Kind) Half(name, what string) error {
	return &halfError{fmt.Sprintf("%s is half attached: %s (remove what is left with: %s)", k.title(name), what, k.detach(name))}
}

// Damaged says of a domain why its description makes no sense, and what to do.
func (k Kind) Damaged(name string, why error) error {
	return fmt.Errorf("the description of %s is %w: %s: %w (start anew with: %s)", k.title(name), ErrDamaged, k.File(name, Description), why, k.detach(name))
}

// Save replaces the description of a domain. The caller holds the lock.
func (k Kind) Save(name string, description any) error {
	b, err := json.MarshalIndent(description, "", "  ")
	if err == nil {
		err = renameio.WriteFile(k.File(name, Description), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write description of %s: %w", k.title(name), err)
	}
	return nil
}

// List returns the names of this kind's domains on this machine.
func (k Kind) List() (names []string, err error) {
	parents := []string{k.parent()}
	if k.Former != nil {
		parents = append(parents, filepath.Dir(k.Former("x")))
	}
	for _, parent := range parents {
		entries, err := os.ReadDir(parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list domains: %w", err)
		}
		for _, e := range entries {
			if statedir.CheckDomain(e.Name()) == nil && k.Dir(e.Name()) == filepath.Join(parent, e.Name()) && isThere(k.File(e.Name(), Description)) {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// Lock creates the domain's state directory if need be and takes its lock, waiting for its holder. unlock releases it; a
// process that dies does too.
func (k Kind) Lock(name string) (unlock func(), err error) {
	if err := statedir.CheckDomain(name); err != nil {
		return nil, fault.Usage.Errorf("%w", err)
	}
	for {
		dir := k.Dir(name)
		unlock, err := statedir.LockDir(dir)
		if err != nil || k.Dir(name) == dir {
			return unlock, err
		}
		// A domain of before was detached while this one waited: the next one is elsewhere.
		_ = os.Remove(filepath.Join(dir, statedir.LockFile))
		_ = os.Remove(dir)
		unlock()
	}
}

// TryLock is Lock for cleaning up: it creates nothing and does not wait. ok is false if there is no lock, or another
// process holds it.
func (k Kind) TryLock(name string) (unlock func(), ok bool) {
	if statedir.CheckDomain(name) != nil {
		return nil, false
	}
	dir := k.Dir(name)
	fd, err := statedir.TryLock(filepath.Join(dir, statedir.LockFile), unix.O_RDWR)
	if err == nil && k.Dir(name) != dir {
		unix.Close(fd)
		err = statedir.ErrLocked
	}
	if err != nil {
		return nil, false
	}
	return func() { unix.Close(fd) }, true
}

// Forget removes the state of a domain that is gone, and what a killed process has left there. The lock goes last: who waits
// for it begins anew then. The caller holds the lock.
func (k Kind) Forget(name string) error {
	dir := k.Dir(name) // which depends on what is there
	entries, err := os.ReadDir(dir)
	errs := []error{err}
	for _, e := range entries {
		if e.Name() != statedir.LockFile {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove state directory: %w", err)
	}
	k.removeDir(dir)
	return nil
}

// ForgetUnused removes the state directory of a domain that is not described: Lock makes one for every name. The caller
// holds the lock.
func (k Kind) ForgetUnused(name string) {
	if dir := k.Dir(name); !isThere(filepath.Join(dir, Description)) {
		k.removeDir(dir)
	}
}

// removeDir removes a directory in which nothing but a lock is left, and that of the kind if it was the last one.
func (k Kind) removeDir(dir string) {
	_ = os.Remove(filepath.Join(dir, statedir.LockFile))
	if os.Remove(dir) == nil { // it fails, as it should, if anything else is there
		_ = os.Remove(k.parent())
	}
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
