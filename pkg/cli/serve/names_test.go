// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
)

// TestNoNames: no request makes the server ask for a name, be it in a filter, for listeners, or in an intent.
func TestNoNames(t *testing.T) {
	need.Programs(t, "unshare:util-linux", "mount:mount")
	n := nstest.New(t, "s")
	t.Setenv("RADAR_STATE_DIR", filepath.Join(t.TempDir(), "state"))
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(resolv, []byte("nameserver 127.0.0.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var dns net.PacketConn
	ns, err := netns.GetFromPath(n.Path("s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	inside := func(do func() error) error { return host.InNetns(ns, do) }
	if err := inside(func() (err error) { dns, err = net.ListenPacket("udp", "127.0.0.1:53"); return err }); err != nil {
		t.Fatal(err)
	}
	defer dns.Close()
	var asked atomic.Int64
	go func() { // a server of names that never answers
		for b := make([]byte, 512); ; asked.Add(1) {
			if _, _, err := dns.ReadFrom(b); err != nil {
				return
			}
		}
	}()
	s := serveBy(t, func(args []string) *exec.Cmd {
		script := `mount --bind "$1" /etc/resolv.conf && shift && exec "$@"`
		return exec.Command("nsenter", append([]string{"--net=" + n.Path("s"), "unshare", "-m", "sh", "-c", script, "sh", resolv, self}, args...)...)
	}, "--listen", "0")
	s.client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(_ context.Context, network, address string) (c net.Conn, err error) {
		err = inside(func() error { c, err = net.Dial(network, address); return err })
		return c, err
	}}
	for _, filter := range []string{"host evil.example", "udp and evil", "gateway evil.example", "port http", "ip proto \\tcp", "net evil"} {
		for _, path := range []string{"/paths?filter=", "/packets?filter=", "/histogram?filter=", "/events?filter="} {
			code, _, text := s.ask(http.MethodGet, "/api/v1/domains/x"+path+url.QueryEscape(filter), nil)
			if code != http.StatusUnprocessableEntity || !strings.Contains(text, "names are not looked up") {
				t.Errorf("%s%s: %d %s", path, filter, code, text)
			}
		}
	}
	for method, body := range map[string]string{"POST": `{"name":"a","slice":{"expr":"host evil.example"}}`, "PUT": `[{"name":"a","slice":{"expr":"host evil.example"}}]`} {
		var problem struct {
			Errors []struct{ Location, Message string }
		}
		s.steer(http.StatusUnprocessableEntity, method, "/api/v1/domains/x/int/intents", body, &problem)
		if len(problem.Errors) != 1 || !strings.HasSuffix(problem.Errors[0].Location, "slice.expr") || !strings.Contains(problem.Errors[0].Message, "names are not looked up") {
			t.Errorf("%s: %+v", method, problem)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d questions for names", n)
	}
}
