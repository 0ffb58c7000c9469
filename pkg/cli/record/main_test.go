// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/cli"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	_ "github.com/vnetradar/radar/pkg/store/query/engine" // SQL
)

func TestMain(m *testing.M) { clitest.Main(m, cli.Run) }
