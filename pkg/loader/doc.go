// SPDX-License-Identifier: Apache-2.0

// Package loader is what every system does that loads programs and puts them at interfaces: constants,
// filter expressions in the programs, memory, and errors in the words of users. It knows no system;
// pkg/hook does the attaching.
package loader
