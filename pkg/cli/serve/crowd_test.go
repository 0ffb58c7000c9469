// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
)

// answered sends a GET on a connection of a user's own, and returns the code of the answer and what follows it.
func (s *server) answered(user int, from, path string) (int, *bufio.Reader) {
	s.Helper()
	c := nstest.DialAs(s, user, from, strings.TrimPrefix(s.address, "http://"))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	r := bufio.NewReader(c)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, r
	}
	return response.StatusCode, bufio.NewReader(response.Body)
}

// TestCrowd: a user who takes all places for listeners and all streams, from as many addresses of the machine as he
// likes, and asks without an end, keeps no other user out.
func TestCrowd(t *testing.T) {
	need.AsRoot(t)
	t.Setenv("RADAR_STATE_DIR", filepath.Join(t.TempDir(), "state"))
	s := serve(t, "--listen", "0")
	const mallet, other = 4242, 4243
	for i := range 256 {
		// 64 streams of a domain, and many listeners to them
		code, _ := s.answered(mallet, fmt.Sprintf("127.7.%d.1", i), fmt.Sprintf("/api/v1/domains/x/events?rate=%d", 1+i%64))
		if code != http.StatusOK {
			t.Fatalf("listener %d: %d", i, code)
		}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			c := nstest.DialAs(t, mallet, fmt.Sprintf("127.8.%d.1", i%28), strings.TrimPrefix(s.address, "http://"))
			fmt.Fprintf(c, "GET /api/v1/domains/x/paths?last=%d HTTP/1.1\r\nHost: localhost\r\n\r\n", i)
		}
	}()
	code, events := s.answered(other, "127.0.0.1", "/api/v1/domains/x/events?rate=777")
	for line, err := "", error(nil); !strings.HasPrefix(line, "id: "); {
		if line, err = events.ReadString('\n'); code != http.StatusOK || err != nil {
			t.Fatalf("another user's listener: %d, %q, %v", code, line, err)
		}
	}
	for user, path := range map[int]string{other: "/api/v1/domains", other + 1: "/api/v1/domains/x/paths"} {
		want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[user == other]
		if code, _ := s.answered(user, "127.0.0.1", path); code != want {
			t.Errorf("user %d, %s: %d, want %d", user, path, code, want)
		}
	}
}
