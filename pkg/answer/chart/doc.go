// SPDX-License-Identifier: Apache-2.0

// Package chart has the numbers of figures: distributions, parts of latencies, losses and waits over time, and packets on
// their way. It draws nothing. Its memory is bounded, whatever comes; what is binned or left out it says.
package chart
