// SPDX-License-Identifier: Apache-2.0

package segments

// For tests that read packets as those outside the package do.
var (
	File    = file
	FixSums = fixSums
)
