// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/vnetradar/radar/pkg/cli"
	"github.com/vnetradar/radar/pkg/cli/clitest"
)

// What rest.go is to the commands of this folder, this is to their tests.

const (
	execEnv    = clitest.ExecEnv
	reportPort = 32766
)

var (
	run = cli.Run

	radar, mustRadar, await, golden, lines = clitest.Radar, clitest.Must, clitest.Await, clitest.Golden, clitest.Lines
	capture, countPackets, intBytes        = clitest.Capture, clitest.CountPackets, clitest.FrameBytes
	reportFrames, reportsFile              = clitest.ReportFrames, clitest.ReportsFile
)

type growing = clitest.Growing

func TestMain(m *testing.M) { clitest.Main(m, cli.Run) }
