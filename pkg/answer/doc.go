// SPDX-License-Identifier: Apache-2.0

// Package answer answers questions about packets: from a domain's ring, from reports of switches that were
// kept, or from both.
//
// Its answers are typed values. A Source says what there is, a Selection which packets are asked for, Counts
// has the rows of each question, a Story what happened to one packet. What an answer lacks, and why it is
// empty, are Notes. The package prints nothing and knows no flag: whoever asks it makes words of the values
// (docs/design/0023-answers.md).
package answer
