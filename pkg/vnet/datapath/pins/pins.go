// SPDX-License-Identifier: Apache-2.0

// Package pins knows what a domain has in the BPF file system: names, the directory, who holds it, and how all of it
// goes again. Pins are the machine's, not a state directory's.
package pins

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Names of pins in the domain's directory: maps have their own name, links begin
// with LinkPrefix.
const (
	LinkPrefix = "link-"
	DropLink   = LinkPrefix + "kfree_skb"
	QueueLink  = LinkPrefix + "qdisc_dequeue"
)

// What pins of links of ports end with: which of the port's hooks it is.
const (
	SuffixIn  = "in"
	SuffixOut = "out"
)

// OfPort is where the link of one hook of one port is pinned.
func OfPort(domainName string, port uint16, suffix string) string {
	return filepath.Join(domain.PinDir(domainName), fmt.Sprintf("%s%d-%s", LinkPrefix, port, suffix))
}

// MakeDir creates the domain's directory of pins. It fails if there is one.
func MakeDir(name string) error {
	if Exist(name) {
		return fmt.Errorf("pin directory: %s is there already", domain.PinDir(name))
	}
	return domain.Kind.MakePins(name)
}

// ErrNone: the domain has no such pin.
var ErrNone = errors.New("not pinned")

// OpenMap opens a pinned map. ErrNone: there is none.
func OpenMap(domainName, name string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(domain.PinDir(domainName), name), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("map %s: %w", name, ErrNone)
	}
	if err != nil {
		return nil, loader.Error("open map "+name, err)
	}
	return m, nil
}

// Exist says whether the domain has any pin.
func Exist(domainName string) bool {
	_, err := os.Lstat(domain.PinDir(domainName))
	return err == nil
}

// Remove removes every pin in the directory of a domain, links first, and the directories
// that are empty then. Sources must be off.
func Remove(dir string) error {
	if err := statedir.Check(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pin directory: %w", err) // whatever that is, we have not made it
	}
	list, err := hook.Pins(dir, "")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list pins: %w", err)
	}
	var errs []error
	// Egress hooks first, so that nothing is marked that nobody would restore.
	for _, egress := range []bool{true, false} {
		for _, pin := range list {
			if isLink(pin) && egress == strings.HasSuffix(pin, "-"+SuffixOut) {
				errs = append(errs, hook.Detach(pin))
			}
		}
	}
	for _, pin := range list {
		if !isLink(pin) {
			errs = append(errs, hook.Detach(pin))
		}
	}
	return errors.Join(append(errs, hook.RemoveDir(dir))...)
}

func isLink(pin string) bool { return strings.HasPrefix(filepath.Base(pin), LinkPrefix) }

// Maps are the numbers of the domain's maps.
func Maps(domainName string) []ebpf.MapID {
	list, err := hook.Pins(domain.PinDir(domainName), "")
	if err != nil {
		return nil
	}
	return hook.PinnedMaps(slices.DeleteFunc(list, isLink))
}
