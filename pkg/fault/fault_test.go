// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// cli is a face; others may write settings and commands in any other way.
var cli = Face{
	Setting: func(name string) string { return "--" + name },
	Command: func(words string) string { return "radar " + words },
}

func TestKinds(t *testing.T) {
	err := fmt.Errorf("attach: %w", Unsupported.Errorf("open %s: %w", "x", fs.ErrPermission))
	if !errors.Is(err, Unsupported) || !errors.Is(err, fs.ErrPermission) || errors.Is(err, Usage) || errors.Is(err, NotLoaded) {
		t.Errorf("%v: not as its kind and its cause", err)
	}
	if text := err.Error(); text != "attach: open x: permission denied" {
		t.Errorf("the text is %q", text)
	}
}

// Whatever carries a text on, it is rendered as a whole.
func TestRender(t *testing.T) {
	inner := Usage.Errorf("‹slots› %d: use fewer", 3)
	for _, c := range []struct{ text, want string }{
		{inner.Error(), "--slots 3: use fewer"},
		{fmt.Errorf("attach: %w (finish with: «detach ‹domain› red»)", inner).Error(), "attach: --slots 3: use fewer (finish with: radar detach --domain red)"},
		{errors.Join(inner, errors.New("see «lab list»")).Error(), "--slots 3: use fewer\nsee radar lab list"},
		{fmt.Sprintf("%q", inner.Error()), `"--slots 3: use fewer"`},
		{"«a ‹x›» and «b ‹y›»", "radar a --x and radar b --y"},
		{"‹no setting› 1 ‹ 2 › «»", "‹no setting› 1 ‹ 2 › «»"},
		{"cut «detach ‹dom", "cut «detach ‹dom"},
		{"plain", "plain"},
	} {
		if got := cli.Render(c.text); got != c.want {
			t.Errorf("%q is rendered as %q, want %q", c.text, got, c.want)
		}
	}
}
