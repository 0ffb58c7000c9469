// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// checkHost answers only requests that name this server. A page of any other site could make
// its own name lead here (DNS rebinding), and its reader's browser would let it read what is
// served: such a request names that site. An address cannot be made to lead elsewhere.
func (s *Server) checkHost(handle http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.answersTo(r.Host) {
			s.otherHosts.Add(1)
			Refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf(s.face.Render(s.otherName), r.Host))
			return
		}
		handle.ServeHTTP(w, r)
	})
}

// answersTo reports whether a Host header is one of this server: an address, a name of this
// machine's loopback, or a name that the user gave. No browser sends none.
func (s *Server) answersTo(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return true
	}
	return slices.Contains(s.names, host)
}

// hostNames are the given names, and the one in address, as answersTo compares them.
func hostNames(names []string, address string) (list []string) {
	if host, _, err := net.SplitHostPort(address); err == nil {
		names = append(slices.Clone(names), host)
	}
	for _, name := range names {
		list = append(list, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	return list
}

// IsLoopback reports whether an address as Config has it is this machine's alone.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return !strings.ContainsAny(address, ".:")
	case host == "", host == "localhost":
		return true // a port alone is one of 127.0.0.1
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
