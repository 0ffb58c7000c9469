// SPDX-License-Identifier: Apache-2.0

package words

import (
	"os/exec"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// A shell gives back what was meant.
func TestArg(t *testing.T) {
	need.Programs(t, "sh:dash")
	for text, want := range map[string]string{"/run/a-1.x": "/run/a-1.x", "two words": "'two words'", "it's; $(x)": `'it'\''s; $(x)'`, "-r": "'-r'", "": "''"} {
		got := Arg(text)
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
		if out, err := exec.Command("sh", "-c", "printf %s "+got).Output(); text != "-r" && (err != nil || string(out) != text) {
			t.Errorf("a shell reads %s as %q, %v", got, out, err)
		}
	}
}
