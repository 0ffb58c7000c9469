// SPDX-License-Identifier: Apache-2.0

// Command radar measures every packet of a virtual network: its path, where it
// waited, where it was lost and why.
package main

import (
	"os"

	"github.com/vnetradar/radar/pkg/cli"
	_ "github.com/vnetradar/radar/pkg/store/query/engine" // SQL
)

func main() { os.Exit(cli.Main()) }
