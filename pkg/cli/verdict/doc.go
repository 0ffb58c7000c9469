// SPDX-License-Identifier: Apache-2.0

// Package verdict has the commands that judge what packets met: whether it was as promised, what changed, and why.
package verdict
