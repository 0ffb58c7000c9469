// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bufio"
	"bytes"
	"errors"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// What is printed is as committed.
func TestPrintCheck(t *testing.T) {
	for _, format := range []kit.Format{kit.FormatTable, kit.FormatWide, kit.FormatJSON} {
		t.Run(string(format), func(t *testing.T) {
			var out bytes.Buffer
			k := &kit.Kit{Out: bufio.NewWriter(&out), Output: format}
			err := run(k, []program.Check{{Name: "kernel", Level: program.OK, Detail: "6.18"},
				{Name: "rights", Level: program.Warn, Detail: "no CAP_SYSLOG", Fix: "run as root"}})
			if err := errors.Join(err, k.Out.Flush()); err != nil {
				t.Fatal(err)
			}
			clitest.Golden(t, "check."+string(format), out.Bytes())
		})
	}
}

func TestCheckFails(t *testing.T) {
	var out bytes.Buffer
	k := &kit.Kit{Out: bufio.NewWriter(&out), Output: kit.FormatTable}
	err := run(k, []program.Check{{Name: "kernel", Level: program.Fail, Detail: "4.19", Fix: "use Linux 5.10 or newer"}})
	if kit.ExitCode(err) != kit.ExitKernel {
		t.Errorf("exit code %d of %v, want %d", kit.ExitCode(err), err, kit.ExitKernel)
	}
}

func TestCheckIsRendered(t *testing.T) {
	clitest.WantRendered(t, func(k *kit.Kit) error {
		return run(k, []program.Check{{Detail: clitest.Marked, Fix: clitest.Marked}})
	})
}
