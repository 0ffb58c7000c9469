// SPDX-License-Identifier: Apache-2.0

package verdict

import "testing"

// TestSplitFlow: what is FLOW, and what an expression.
func TestSplitFlow(t *testing.T) {
	for text, want := range map[string][4]string{
		"10.0.0.1:4000-10.0.3.2:5201":         {"10.0.0.1", "4000", "10.0.3.2", "5201"},
		"10.0.0.1:4000 > 10.0.3.2:5201":       {"10.0.0.1", "4000", "10.0.3.2", "5201"},
		"[2001:db8::1]:4000-[2001:db8::2]:80": {"2001:db8::1", "4000", "2001:db8::2", "80"},
		"2001:db8::1-2001:db8::2":             {"2001:db8::1", "", "2001:db8::2", ""},
		"h1-h2":                               {"h1", "", "h2", ""},
		"h1-10.9.0.2:5201":                    {"h1", "", "10.9.0.2", "5201"},
		"web-1:80-h2":                         {"web-1", "80", "h2", ""},
		"tcp port 80":                         {},
		"port 80-90":                          {},
		"tcp[0:2] - 1 > 5":                    {},
		"h1":                                  {},
		"h1:70000-h2":                         {},
		"-h2":                                 {},
		"[h1]:80-h2":                          {},
	} {
		src, dst, ok := splitFlow(text)
		if got := [4]string{src.addr, src.port, dst.addr, dst.port}; got != want || ok != (want != [4]string{}) {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
}
