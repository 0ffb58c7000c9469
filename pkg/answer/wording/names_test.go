// SPDX-License-Identifier: Apache-2.0

package wording_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/clitest"
)

// Sentences that radar has made of interfaces name the network, and nothing that only begins alike.
func TestShownTexts(t *testing.T) {
	s := wording.NewNames(clitest.NetworkDomain())
	for text, want := range map[string]string{
		"fq_codel at host/" + clitest.NetworkBridge + ", and more": "fq_codel at host/shop, and more",
		"bridge host/" + clitest.NetworkBridge + ":":               "bridge host/shop:",
		"host/" + clitest.NetworkBridge + "x":                      "host/" + clitest.NetworkBridge + "x",
		"c1/" + clitest.NetworkBridge:                              "c1/" + clitest.NetworkBridge,
		"host/veth77 and /run/radar":                               "host/veth77 and /run/radar",
	} {
		if got := s.Texts([]string{text})[0]; got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
