// SPDX-License-Identifier: Apache-2.0

// Package forward joins two interfaces in user space, frame by frame: what
// arrives at one leaves by the other, later, or not at all, as its Config says.
// It is a network function that keeps no skb of the kernel, and it delays and
// loses packets where the kernel has no netem.
//
// One thread serves both directions. A direction has its own random numbers: with
// the same seed, the same happens to the same frames in the same order, whatever
// the other direction does.
//
// Frames keep their bytes, VLAN tags and offloads: what the kernel would have
// cut into segments or given a checksum later is passed on as it is (virtio_net
// header), one frame here, however many segments it stands for.
package forward
