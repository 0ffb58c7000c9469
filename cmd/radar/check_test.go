// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"testing"

	"github.com/vnetradar/radar/pkg/datapath"
)

// What is printed is as committed.
func TestPrintCheck(t *testing.T) {
	for _, format := range []outputFormat{formatTable, formatWide, formatJSON} {
		t.Run(string(format), func(t *testing.T) {
			var out bytes.Buffer
			a := &app{out: bufio.NewWriter(&out), output: format}
			err := a.check([]datapath.Check{{Name: "kernel", Level: datapath.OK, Detail: "6.18"},
				{Name: "rights", Level: datapath.Warn, Detail: "no CAP_SYSLOG", Fix: "run as root"}})
			if err := errors.Join(err, a.out.Flush()); err != nil {
				t.Fatal(err)
			}
			golden(t, "check."+string(format), out.Bytes())
		})
	}
}

func TestCheckFails(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: bufio.NewWriter(&out), output: formatTable}
	err := a.check([]datapath.Check{{Name: "kernel", Level: datapath.Fail, Detail: "4.19", Fix: "use Linux 5.10 or newer"}})
	if exitCode(err) != exitKernel {
		t.Errorf("exit code %d of %v, want %d", exitCode(err), err, exitKernel)
	}
}
