// SPDX-License-Identifier: Apache-2.0

// Package kernel says what the running kernel is and has, and what it lets this process do.
package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Release is that of the running kernel, such as "5.10.0-46-cloud-amd64"; "" if it does not say.
func Release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// Older reports whether a release is older than a version; false if it is none.
func Older(release string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(release, "%d.%d", &a, &b); err != nil {
		return false
	}
	return a < major || a == major && b < minor
}
