// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/answer"
)

// namedFile counts how often nodes are looked for.
type namedFile struct {
	answer.File
	asked int
}

func (f *namedFile) AddressesOf(names []string) ([]string, error) {
	f.asked += len(names)
	if len(names) == 0 {
		return nil, nil
	}
	return []string{"10.0.0.1"}, nil
}

// What a request costs is bounded before its names are looked for; each is looked for once, and none for who has gone.
func TestNamesOfFilter(t *testing.T) {
	f := &namedFile{}
	a := &API{texts: newExpressions(), Config: Config{Files: map[string]answer.File{"d": f}}}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx   context.Context
		text  string
		asked int
	}{
		{t.Context(), "host h1" + strings.Repeat(" or h1", 64), 0},
		{t.Context(), strings.Repeat("(", 33) + "host h1", 0},
		{gone, "host h1", 0},
		{t.Context(), "host h1" + strings.Repeat(" or h1", 63), 1},
	} {
		f.asked = 0
		_, err := a.selection(c.ctx, &Filters{Filter: c.text}, "d")
		if f.asked != c.asked || (err == nil) != (c.asked > 0) {
			t.Errorf("%.40s: asked %d times, want %d: %v", c.text, f.asked, c.asked, err)
		}
	}
}
