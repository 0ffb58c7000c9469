// SPDX-License-Identifier: Apache-2.0

// Package p4 holds the compiled P4 program that is built into radar.
package p4

import _ "embed" // the files of p4/build

// Name is what the files of the program are called.
const Name = "radar_v1model"

// JSON is the program for BMv2, Info its description (P4Info as text).
var (
	//go:embed build/radar_v1model.json
	JSON []byte
	//go:embed build/radar_v1model.p4info.txtpb
	Info []byte
)
