// SPDX-License-Identifier: Apache-2.0

package query

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/sql.md")

// TestPage: docs/sql.md has every table and column.
func TestPage(t *testing.T) {
	const path, begin, end = "../../../docs/sql.md", "<!-- tables -->\n", "<!-- end of tables -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := bytes.Cut(text, []byte(begin))
	_, after, ok := bytes.Cut(rest, []byte(end))
	if !ok {
		t.Fatal("the page has no marks")
	}
	var b strings.Builder
	for i, v := range Views {
		fields := v.Columns
		fmt.Fprintf(&b, "\n## `%s`: %s\n\n", v.Name, v.About)
		if len(fields) > len(ofPacket) && fields[len(ofPacket)-1] == ofPacket[len(ofPacket)-1] && i > 0 {
			fmt.Fprintf(&b, "The packet's `%s` to `%s` as in `packets`, and\n\n", ofPacket[0].Name, ofPacket[len(ofPacket)-1].Name)
			fields = fields[len(ofPacket):]
		}
		fmt.Fprintf(&b, "| column | type | unit | meaning |\n|---|---|---|---|\n")
		for _, f := range fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, cmp.Or(f.Unit, " "), f.About)
		}
	}
	want := string(before) + begin + b.String() + "\n" + end + string(after)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("the tables of docs/sql.md are not those of Views: go test ./pkg/store/query -run TestPage -update")
	}
}
