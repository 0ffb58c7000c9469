// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// Sentences that radar has made of interfaces name the network, and nothing that only begins alike.
func TestShownTexts(t *testing.T) {
	s := newShownNames(networkDomain())
	for text, want := range map[string]string{
		"fq_codel at host/" + networkBridge + ", and more": "fq_codel at host/shop, and more",
		"bridge host/" + networkBridge + ":":               "bridge host/shop:",
		"host/" + networkBridge + "x":                      "host/" + networkBridge + "x",
		"c1/" + networkBridge:                              "c1/" + networkBridge,
		"host/veth77 and /run/radar":                       "host/veth77 and /run/radar",
	} {
		if got := s.texts([]string{text})[0]; got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
