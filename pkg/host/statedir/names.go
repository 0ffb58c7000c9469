// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"fmt"
	"regexp"
)

// Labs, Reports, INT and Intents lie in Root, beside the domains' directories: descriptions of running labs,
// kept reports, INT domains, and what is wanted of them.
const (
	Labs    = "labs"
	Reports = "reports"
	INT     = "int"
	Intents = "intents"
)

// No dots: the BPF file system refuses them in names.
var domainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// CheckDomain refuses names of domains that cannot be a directory in Root, or a pin's.
func CheckDomain(name string) error {
	if name == Labs || name == Reports || name == INT || name == Intents {
		return fmt.Errorf("domain name %q is taken: running labs and INT nodes are described, and reports kept, there", name)
	}
	if !domainName.MatchString(name) {
		return fmt.Errorf("domain name %q: use 1 to 32 letters, digits, '_' or '-', the first a letter or digit", name)
	}
	return nil
}
