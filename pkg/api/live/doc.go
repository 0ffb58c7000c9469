// SPDX-License-Identifier: Apache-2.0

// Package live follows domains for listeners: their packets, losses and events as they come, and once a second what
// nodes and links carried (docs/design/0035-api.md).
//
// One Feed follows one domain, while somebody listens, for all listeners: each packet is decoded and counted once.
// Listeners who ask for the same share a Stream.
package live
