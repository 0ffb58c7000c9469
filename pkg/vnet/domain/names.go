// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"path/filepath"

	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/system"
)

// Kind is what measurement domains are among attached systems.
var Kind = system.Kind{Name: "vnet", Title: "domain", Operands: "NODE...", Version: Version, Layer: system.Backpack, Prefix: "rdr_", Former: former}

// apart is the first version whose domains have a directory for their kind: those of before lie beside the kinds, and their
// pins beside versions.
const apart = 10

func former(name string) string { return filepath.Join(statedir.Root(), name) }

// Dir is the state directory of the domain (0700).
func Dir(name string) string { return Kind.Dir(name) }

// PinDir is where the domain's maps and links are pinned (0700).
func PinDir(name string) string { return Kind.PinDir(name) }

// OtherPinDir is PinDir of a domain for which Load returns ErrOtherVersion.
func (d *Domain) OtherPinDir() string {
	if d.Version < apart {
		return filepath.Join(hook.BPFFS, "radar", fmt.Sprintf("v%d", d.Version), d.Name)
	}
	return Kind.PinDir(d.Name)
}

// Description is the name of the file that describes a domain.
const Description = system.Description

// File returns the path of one of the domain's state files: Description, "lock",
// "agent.pid", "agent.log", "aggregates".
func File(name, file string) string { return Kind.File(name, file) }

// Kept says which domain's pins a process may hold.
func Kept(name string) loader.Kept { return Kind.Kept(name) }
