// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"sync/atomic"

	"github.com/vishvananda/netlink"
)

// dumpTries bounds how often a dump is repeated that changes interrupted. While containers
// start that happens to every third one.
const dumpTries = 20

// interrupted counts them.
var interrupted atomic.Int64

// Interrupted is how many dumps of this process have been repeated.
func Interrupted() int64 { return interrupted.Load() }

// RetryDump asks the kernel for a list again while it says that the list has changed
// meanwhile, and may lack something.
func RetryDump[T any](dump func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		list, err := dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return list, err
		}
		if interrupted.Add(1); try == dumpTries {
			return list, err
		}
	}
}
