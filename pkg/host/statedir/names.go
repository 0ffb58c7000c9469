// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"fmt"
	"regexp"
)

// No dots: the BPF file system refuses them in names.
var domainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// CheckDomain refuses names of domains that cannot be a directory of state, or of pins.
func CheckDomain(name string) error {
	if !domainName.MatchString(name) {
		return fmt.Errorf("domain name %q: use 1 to 32 letters, digits, '_' or '-', the first a letter or digit", name)
	}
	return nil
}
