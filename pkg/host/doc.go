// SPDX-License-Identifier: Apache-2.0

// Package host is what every part of radar needs of the machine that it runs on: processes that
// are identified for good, a role that one of them has at a time, and threads in network
// namespaces. It knows no system of radar.
package host
