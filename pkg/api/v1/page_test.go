// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/api/page"
)

// TestPagePolicy: the document may run the script that stands in it, which nothing else may, and no other inline script.
func TestPagePolicy(t *testing.T) {
	handler := pageOf(page.Files())
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	w := ask("/")
	_, rest, _ := strings.Cut(w.Body.String(), "<script>")
	script, _, _ := strings.Cut(rest, "</script>")
	sum := sha256.Sum256([]byte(script))
	want := "script-src 'self' 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	policy := w.Header().Get("Content-Security-Policy")
	if script == "" || !strings.Contains(policy, "default-src 'self';") || !strings.HasSuffix(policy, want) || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q, without %q", policy, want)
	}
	for _, path := range []string{"/assets/page.js", "/assets/icon.svg", "/nothing"} {
		if policy := ask(path).Header().Get("Content-Security-Policy"); policy != "" {
			t.Errorf("%s has a policy of its own: %s", path, policy)
		}
	}
}
