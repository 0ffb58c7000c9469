// SPDX-License-Identifier: Apache-2.0

// Package assertion holds what users promise of their packets against what packets met: a file of assertions, each
// about packets that it selects, and what became of each promise (docs/verdicts.md).
package assertion
