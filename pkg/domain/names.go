// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/vnetradar/radar/pkg/host/statedir"
)

// No dots: the BPF file system refuses them in names.
var nameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// labsDir and ReportsDir lie beside the domains' directories; see pkg/lab, pkg/collect.
const (
	labsDir    = "labs"
	ReportsDir = "reports"
)

// CheckName refuses names that cannot be a file name, or a pin's.
func CheckName(name string) error {
	if name == labsDir || name == ReportsDir {
		return fmt.Errorf("domain name %q is taken: running labs are described, and reports kept, there", name)
	}
	if !nameRE.MatchString(name) {
		return fmt.Errorf("domain name %q: use 1 to 32 letters, digits, '_' or '-', the first a letter or digit", name)
	}
	return nil
}

// Dir is the state directory of the domain (0700).
func Dir(name string) string { return filepath.Join(statedir.Root(), name) }

// PinDir is where the domain's maps and links are pinned (0700).
func PinDir(name string) string { return pinDir(name, Version) }

// OtherPinDir is PinDir of a domain for which Load returns ErrOtherVersion.
func (d *Domain) OtherPinDir() string { return pinDir(d.Name, d.Version) }

func pinDir(name string, version int) string {
	return filepath.Join("/sys/fs/bpf/radar", fmt.Sprintf("v%d", version), name)
}

// File returns the path of one of the domain's state files: "domain.json",
// "lock", "agent.pid", "agent.log", "aggregates".
func File(name, file string) string { return filepath.Join(Dir(name), file) }
