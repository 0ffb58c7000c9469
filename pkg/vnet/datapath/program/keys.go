// SPDX-License-Identifier: Apache-2.0

package program

import (
	crand "crypto/rand"
	"encoding/binary"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// HashKeys are the secret of a domain's hashes of addresses and ports: bpf/backpack/hash.h.
type HashKeys [len(bpfobj.TcRdrControl{}.Hash)]uint64

// newHashKeys returns keys that nobody can guess.
func newHashKeys() (keys HashKeys) {
	var b [8 * len(keys)]byte
	_, _ = crand.Read(b[:]) // never fails
	for i := range keys {
		keys[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return keys
}
