// SPDX-License-Identifier: Apache-2.0

// Package control is the INT management system: docs/design/0034-intents.md.
//
//   - An Intent says what to observe; a Config holds for the whole INT domain.
//   - A Driver makes a device hold a State. Its packages lie below: ebpf, p4runtime, mapped.
package control
