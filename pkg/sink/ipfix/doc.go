// SPDX-License-Identifier: Apache-2.0

// Package ipfix makes flow records of packets and writes them as IPFIX messages (RFC 7011), with the delay elements of
// RFC 9951. It does no I/O. What stands for what: docs/export.md.
package ipfix
