// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpTries bounds how often a dump is repeated that changes interrupted. While containers
// start that happens to every third one.
const dumpTries = 20

// retryDump asks the kernel for a list again while it says that the list has changed
// meanwhile, and may lack something.
func retryDump[T any](dump func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		list, err := dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == dumpTries {
			return list, err
		}
	}
}
