// SPDX-License-Identifier: Apache-2.0

// Package verdict makes the commands that judge what was measured: "radar explain" and those beside it.
package verdict
