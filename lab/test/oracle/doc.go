// SPDX-License-Identifier: Apache-2.0

// Package oracle works out from packet captures what really happened in a
// virtual network, and compares radar's records with it, packet by packet.
//
// It shares no code with radar's data path and trusts nothing that radar wrote:
// what it knows comes from tcpdump (every port of every node), from nflog (the
// header inside a node), from raw sockets (the header a process sees) and from
// what the senders say they sent. Only package record is imported, for the JSON
// form that is checked.
//
// # How a packet is recognised
//
// Inside a domain radar rewrites IP ID, TTL and DSCP, so none of them is used.
// A packet is known by its content: addresses, protocol, fragment bits, options,
// length and the first bytes behind the IP header (of TCP: the whole TCP
// header). A GSO train is split as the kernel would split it, with the segment
// size from the connection's SYNs. So a train that is cut on its path is still
// followed segment by segment. Packets with equal content (duplicate
// acknowledgements) keep their order: the first that leaves a port is taken to be
// the first that arrives at its peer.
//
// # What is compared
//
// See [Truth]: its Check methods each give one [Row] of the report. A row that
// compared nothing is a failure, not a success.
//
// CheckStamps checks, on every machine, the limits that captures put on times: a packet tap
// sees a packet that comes in before radar does, and one that goes out after radar. Answers
// must agree with the records exactly. How near radar's times are to the captures' depends on
// how quiet the machine is: Bounds say whether that is checked too.
package oracle
