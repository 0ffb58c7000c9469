// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"path/filepath"

	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/loader"
)

// Dir is the state directory of the domain (0700).
func Dir(name string) string { return filepath.Join(statedir.Root(), name) }

// PinDir is where the domain's maps and links are pinned (0700).
func PinDir(name string) string { return pinDir(name, Version) }

// OtherPinDir is PinDir of a domain for which Load returns ErrOtherVersion.
func (d *Domain) OtherPinDir() string { return pinDir(d.Name, d.Version) }

func pinDir(name string, version int) string {
	return filepath.Join("/sys/fs/bpf/radar", fmt.Sprintf("v%d", version), name)
}

// Description is the name of the file that describes a domain.
const Description = "domain.json"

// File returns the path of one of the domain's state files: Description, "lock",
// "agent.pid", "agent.log", "aggregates".
func File(name, file string) string { return filepath.Join(Dir(name), file) }

// Kept says which domain's pins a process may hold.
func Kept(name string) loader.Kept {
	return loader.Kept{
		Pins: PinDir(name), State: Dir(name),
		Title: fmt.Sprintf("domain %q", name), Detach: fmt.Sprintf("«detach ‹domain› %s»", name),
	}
}
