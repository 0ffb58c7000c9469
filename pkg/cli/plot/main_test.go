// SPDX-License-Identifier: Apache-2.0

package plot_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/cli"
	"github.com/vnetradar/radar/pkg/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, cli.Run) }
