// SPDX-License-Identifier: Apache-2.0

// Package recorder keeps the packets of a domain in segments: all of them as they end, or, as a flight recorder, those
// around the moments at which something happened.
//
// A recorder follows the ring, as any reader does. It slows down no packet, needs no agent, and its end harms nothing:
// segments that are finished stay. What it could not keep is counted by cause.
package recorder
