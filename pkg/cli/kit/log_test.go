// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
)

func TestLineHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(NewLineHandler(&out)).With("domain", "d")
	log.Debug("unseen")
	log.Info("topology changed", "added", []string{"r1/e0"}, "removed", []string{})
	log.Warn("renew the lease", "error", errors.New("gone"))
	const want = "radar: topology changed domain d added [r1/e0]\nradar: warning: renew the lease domain d: gone\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
