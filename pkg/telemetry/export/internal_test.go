// SPDX-License-Identifier: Apache-2.0

package export

// SetSequence says what a node's next number is: tests cannot wait until they wrap.
func (e *Encoder) SetSequence(node, number uint32) { e.next[node] = number }
