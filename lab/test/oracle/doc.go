// SPDX-License-Identifier: Apache-2.0

// Package oracle works out from packet captures what really happened in a
// virtual network, and compares radar's records with it, packet by packet.
//
// It shares no code with radar's data path and trusts nothing that radar wrote:
// what it knows comes from tcpdump (every port of every node), from nflog (the
// header inside a node), from raw sockets (the header a process sees) and from
// what the senders say they sent. Only package record is imported, for the JSON
// form that is to be judged.
//
// # How a packet is recognised
//
// Inside a domain radar rewrites IP ID, TTL and DSCP, so none of them is used.
// A packet is known by its content: addresses, protocol, fragment bits, options,
// length and the first bytes behind the IP header (of TCP: the whole TCP
// header). A GSO train is taken apart as the kernel would take it apart, with
// the segment size from the connection's SYNs; so a train that is cut on its way
// is still followed segment by segment. Packets with equal content (duplicate
// acknowledgements) keep their order: the first that leaves a port is taken for
// the first that arrives at its peer.
//
// # What is compared
//
// See [Truth]: its Check methods each give one [Row] of the report. A row that
// compared nothing is a failure, not a success.
//
// Of times, what captures leave no choice about is judged always (CheckStamps): a packet tap
// sees what comes in before radar does, and what goes out after it. Answers are held to records,
// exactly. How near radar's times are to the captures' is a matter of how quiet the machine
// is: Bounds say whether that is judged, too.
package oracle
