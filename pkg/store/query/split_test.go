// SPDX-License-Identifier: Apache-2.0

package query

import "testing"

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1; SELECT ';' -- ;\n;":              "SELECT 1|SELECT ';' -- ;|",
		"select $$ ; $$, $a$ ; $$ $a$; x":           "select $$ ; $$, $a$ ; $$ $a$| x",
		`select E'it\'s;', "a;""b"; /* ; */ `:       `select E'it\'s;', "a;""b"| /* ; */ `,
		";;":                                        "",
		"select 'open; ":                            "select 'open; ",
		"CREATE TABLE a$b AS SELECT 1; SELECT 2;\n": "CREATE TABLE a$b AS SELECT 1|SELECT 2|\n",
	} {
		list, rest := Split(text)
		got := ""
		for _, s := range list {
			got += s.Text + "|"
		}
		if got+rest != want {
			t.Errorf("%q: %q, want %q", text, got+rest, want)
		}
	}
	if list := SplitAll("\n\nSELECT 1;\n -- x\nSELECT 2"); len(list) != 2 || list[0].Line != 3 || list[1].Line != 4 {
		t.Errorf("%+v", list)
	}
}
