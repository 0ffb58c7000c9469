// SPDX-License-Identifier: Apache-2.0

package send

import (
	"net/netip"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/servers"
)

// An answer that has come is found when there is no time left to wait, and counted once.
func TestLateRefusal(t *testing.T) {
	s, err := Dial(netip.MustParseAddrPort(servers.Free(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Send([]byte("message"))
	late := time.Now()
	time.Sleep(10 * time.Millisecond)
	if !s.AwaitRefusal(late) || s.AwaitRefusal(late) || s.Counts().Refused != 1 {
		t.Errorf("%+v, want one answer", s.Counts())
	}
}
