// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

const smallInfo = `tables { preamble { id: 1 name: "t" } match_fields { id: 1 name: "port" bitwidth: 9 match_type: EXACT } action_refs { id: 2 } }
actions { preamble { id: 2 name: "a" } }
`

func TestLabP4Errors(t *testing.T) {
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	program, info := file("p.json", "{}"), file("p.txtpb", smallInfo)
	right := file("right", "table_add t a 1 =>\n")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{address, right}, kit.ExitUsage, "name the program by --program and --p4info"},
		{[]string{"--program", program + "x", "--p4info", info, address, right}, kit.ExitFailure, "read the program: open"},
		{[]string{"--program", program, "--p4info", program, address, right}, kit.ExitFailure, "read P4Info:"},
		{[]string{"--program", program, "--p4info", info, address, right + "x"}, kit.ExitFailure, "read entries: open"},
		{[]string{"--program", program, "--p4info", info, address, file("wrong", "\ntable_add t a x =>\n")}, kit.ExitUsage,
			`entries, line 2: table t, key port: "x" is neither a number nor an address of 9 bits`},
		{[]string{"--program", program, "--p4info", info, "--timeout", "0s", address, right}, kit.ExitUsage, "--timeout 0s: use a positive duration"},
		{[]string{"--program", program, "--p4info", info, "--timeout", "50ms", address, right}, kit.ExitFailure,
			"become the controller of the switch at " + address + ": no P4Runtime answers there within 50ms"},
	} {
		_, stderr, code := clitest.Radar(t, append([]string{"lab", "p4"}, tc.args...)...)
		if code != tc.code || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") > 1 && tc.code != kit.ExitUsage {
			t.Errorf("%v: exit code %d, said %q, want %d and %q", tc.args, code, stderr, tc.code, tc.want)
		}
	}
}
