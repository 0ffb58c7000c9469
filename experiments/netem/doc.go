// SPDX-License-Identifier: Apache-2.0

// Package netem holds a part of experiment 01 for kernels that have netem, which not
// every machine's has: experiments/01-load-balancing/netem.sh runs it on one of
// lab/test/kernels. It has tests only.
package netem
