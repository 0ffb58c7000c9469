// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// mostBody is how much of a request's body is read, bytes.
const mostBody = 1 << 20

// Guard says who may ask for what. Whoever has the token may ask for all.
type Guard struct {
	// Token is what steering takes; "": nobody steers.
	Token string
	// OpenReading: GET and HEAD take no token.
	OpenReading bool
	// Public are requests that take no token in any case: they tell nothing. nil: none.
	Public func(*http.Request) bool

	refused atomic.Uint64
}

// Refused is how many requests had no token that they needed, or another site's origin.
func (g *Guard) Refused() uint64 { return g.refused.Load() }

// contentPolicy lets a page load from this server alone, and no page of others show it in a frame.
const contentPolicy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// AllowScripts lets the answer, which is an HTML document, run the inline scripts with these texts, and no others.
func AllowScripts(w http.ResponseWriter, texts ...string) {
	sources := ""
	for _, text := range texts {
		sum := sha256.Sum256([]byte(text))
		sources += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	w.Header().Set("Content-Security-Policy", contentPolicy+"; script-src 'self'"+sources)
}

// check answers requests only of those who may ask.
func (g *Guard) check(handle http.Handler) http.Handler {
	if g == nil {
		return handle
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		switch {
		case !sameOrigin(r):
			g.refused.Add(1)
			Refuse(w, http.StatusForbidden, "a page of another site asks: this server answers its own page only")
		case !g.allows(r):
			g.refused.Add(1)
			h.Set("WWW-Authenticate", `Bearer realm="radar"`)
			Refuse(w, http.StatusUnauthorized, "this takes the server's token: Authorization: Bearer TOKEN")
		default:
			r.Body = http.MaxBytesReader(w, r.Body, mostBody)
			handle.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), steersKey{}, g.Steers(r))))
		}
	})
}

type steersKey struct{}

// Steers reports whether the request of a context has the token.
func Steers(ctx context.Context) bool { return ctx.Value(steersKey{}) == true }

// Steers reports whether a request has the token.
func (g *Guard) Steers(r *http.Request) bool {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if g.Token == "" || !strings.EqualFold(kind, "Bearer") {
		return false
	}
	// Of equal length whatever is sent, so that time says nothing about the token's.
	given, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(g.Token))
	return subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

func (g *Guard) allows(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	return reads && (g.OpenReading || g.Public != nil && g.Public(r)) || g.Steers(r)
}

// sameOrigin reports whether a request comes from this server's own page, from no page at all, or from somebody who
// follows a link. Browsers say so by headers that pages cannot set.
func sameOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		from, err := url.Parse(origin)
		return err == nil && from.Scheme == scheme && strings.EqualFold(from.Host, r.Host)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	// A link to the page from elsewhere is no request of that page.
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}
