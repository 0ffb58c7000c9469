// SPDX-License-Identifier: Apache-2.0

package p4test

import "github.com/vnetradar/radar/p4/recorded"

type counters = recorded.Counters

// evidence is what is known of a case that has run.
type evidence struct {
	Sent     [][]byte
	Captured map[string][][]byte // by link, in the order of the capture
	Counters map[int]counters
	Next     map[int]uint32 // by switch: the number that its next report must have
}

// Indices of the program's counters, as docs/p4.md lists them.
const (
	skipNotWatched = 1
	skipNotSampled = 2
	skipNotIP      = 3
	skipNotTCPUDP  = 4
	skipFragment   = 5
	skipExtension  = 6
	skipTooShort   = 7
	skipBadLength  = 8
	skipReport     = 10
	skipForeign    = 11
	skipNotINT     = 12
	skipMTU        = 13
	skipHops       = 14

	doneSource     = 0
	doneTransit    = 1
	doneSink       = 2
	doneFlow       = 3
	doneQueue      = 4
	doneSuppressed = 5
	doneDiscarded  = 6
	doneSent       = 7

	dropTTL       = 41
	dropIPv4Miss  = 51
	dropIPv6Miss  = 52
	dropBlackhole = 53
	dropACL       = 80
)
