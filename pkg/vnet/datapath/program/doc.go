// SPDX-License-Identifier: Apache-2.0

// Package program makes the programs and maps of a domain from what the user chose and the kernel can do:
//
//   - Options are the user's, Features the kernel's (Probe); Checks says what is missing.
//   - Layout is what follows from options: header bits, slots, blocks. LayoutOf is that of a domain that exists.
//   - A Blueprint is what is to be loaded, with constants and sizes set; Load makes maps and programs of it.
//
// It attaches nothing, and knows no node and no interface.
package program
