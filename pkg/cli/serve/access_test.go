// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// access is a request and what becomes of it.
type access struct {
	method, path string
	headers      []string
	want         int
}

const domains, intents = "/api/v1/domains", "/api/v1/domains/x/int/intents"

// refusals are requests of other sites' pages, whoever has the token.
func refusals(s *server) (list []access) {
	own := s.address
	token := []string{"Authorization", "Bearer " + s.token()}
	for _, a := range []access{
		{"GET", domains, []string{"Origin", "https://evil.example"}, 403},
		{"GET", domains, []string{"Origin", "null"}, 403},
		{"GET", domains, []string{"Origin", own + ".evil.example"}, 403},
		{"GET", domains, []string{"Origin", strings.Replace(own, "://127", "://user@127", 1) + "0"}, 403},
		{"GET", domains, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"GET", "/api/v1/domains/x/events", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"POST", intents, []string{"Origin", "https://evil.example"}, 403},
		{"POST", intents, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403},
		{"GET", domains, []string{"Host", "evil.example"}, 421},
		{"GET", "/", []string{"Host", "127.0.0.1.evil.example"}, 421},
		{"GET", domains, []string{"Origin", own}, 200},
		{"GET", domains, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		{"GET", domains, []string{"Host", "localhost:1"}, 200},
		{"GET", domains, []string{"Host", "lab.example"}, 200},
	} {
		a.headers = append(a.headers, token...)
		list = append(list, a)
	}
	return list
}

func (s *server) checkAccess(list []access) {
	s.Helper()
	for _, a := range list {
		var body *strings.Reader
		if a.method != http.MethodGet && a.method != http.MethodDelete {
			body = strings.NewReader(`{"name":"a b"}`)
		}
		var code int
		var header http.Header
		var text string
		if body == nil {
			code, header, text = s.ask(a.method, a.path, nil, a.headers...)
		} else {
			code, header, text = s.ask(a.method, a.path, body, a.headers...)
		}
		if code != a.want {
			s.Errorf("%s %s %q: %d, want %d\n%.300s", a.method, a.path, a.headers, code, a.want, text)
		}
		if code >= 400 && header.Get("Content-Type") != "application/problem+json" {
			s.Errorf("%s %s: %d is told as %q", a.method, a.path, code, header.Get("Content-Type"))
		}
		if strings.Contains(text, s.token()) || header.Get("Access-Control-Allow-Origin") != "" {
			s.Errorf("%s %s: %v %s", a.method, a.path, header, text)
		}
		for name, part := range map[string]string{"Content-Security-Policy": "default-src 'self'", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"} {
			if code != http.StatusMisdirectedRequest && !strings.Contains(header.Get(name), part) {
				s.Errorf("%s %s: %s is %q", a.method, a.path, name, header.Get(name))
			}
		}
	}
}

// TestAccess: on this machine reading takes no token, steering does; elsewhere everything does but the page. Pages of
// other sites get nothing, also those whose name leads here.
func TestAccess(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", filepath.Join(t.TempDir(), "state"))
	local := serve(t, "--listen", "0", "--host", "lab.example")
	remote := serve(t, "--listen", "0.0.0.0:0", "--self-signed", "--host", "lab.example")
	remote.address = strings.Replace(remote.address, "[::]", "127.0.0.1", 1)
	remote.address = strings.Replace(remote.address, "0.0.0.0", "127.0.0.1", 1)
	token, wrong := "Bearer "+local.token(), "Bearer "+strings.ToLower(local.token())
	for s, open := range map[*server]bool{local: true, remote: false} {
		read := map[bool]int{true: 200, false: 401}[open]
		list := []access{
			{"GET", "/", nil, 200}, {"HEAD", "/", nil, 200}, {"POST", "/", nil, 401}, {"POST", "/", []string{"Authorization", token}, 405},
			{"GET", domains, nil, read}, {"GET", "/metrics", nil, read}, {"GET", intents, nil, read}, {"GET", "/api/v1/openapi.json", nil, read},
			{"GET", "/metrics", []string{"Authorization", token}, 200}, {"GET", domains, []string{"Authorization", token}, 200},
			{"GET", domains, []string{"Authorization", "bearer " + local.token()}, 200},
			{"GET", domains + "?token=" + local.token(), nil, map[bool]int{true: 422, false: 401}[open]},
		}
		for _, method := range []string{"POST", "PUT"} {
			list = append(list, access{method, intents, nil, 401}, access{method, intents, []string{"Authorization", wrong}, 401},
				access{method, intents, []string{"Authorization", "Bearer "}, 401}, access{method, intents, []string{"Authorization", "Basic " + local.token()}, 401},
				access{method, intents, []string{"Authorization", token}, 422})
		}
		list = append(list, access{"DELETE", intents + "/a", nil, 401}, access{"DELETE", intents + "/a", []string{"Authorization", token}, 404})
		s.checkAccess(append(list, refusals(s)...))
	}
	state := os.Getenv("RADAR_STATE_DIR")
	for _, secret := range []string{"api.token", "api.key"} {
		if about, err := os.Stat(filepath.Join(state, secret)); err != nil || about.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", secret, about, err)
		}
	}
	for _, s := range []*server{local, remote} {
		if strings.Contains(s.said, s.token()) {
			t.Errorf("the token is printed: %s", s.said)
		}
	}
	remote.checkFingerprint()
}

// checkFingerprint compares what is printed with the certificate that a client gets.
func (s *server) checkFingerprint() {
	s.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(s.address, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	sum := sha256.Sum256(c.ConnectionState().PeerCertificates[0].Raw)
	text, err := os.ReadFile(s.log)
	if err != nil {
		s.Fatal(err)
	}
	if want := strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":"); !strings.Contains(string(text), want) {
		s.Errorf("the fingerprint is %s, radar says %s", want, text)
	}
	if err := c.ConnectionState().PeerCertificates[0].VerifyHostname("lab.example"); err != nil {
		s.Error(err)
	}
	again := serve(s.T, "--listen", "127.0.0.1:0", "--self-signed", "--host", "lab.example")
	if text, err := os.ReadFile(again.log); err != nil || !strings.Contains(string(text), strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")) {
		s.Errorf("another server has another certificate: %s", text)
	}
}

// TestServeRefused: what would not be safe is refused, and says what to do.
func TestServeRefused(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("RADAR_STATE_DIR", filepath.Join(dir, "state"))
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file("linked", strings.Repeat("x", 30)+"\n", 0o600), link); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0") // a server that begins all the same cannot go on
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--listen 0.0.0.0:0", kit.ExitUsage, "takes TLS"},
		{"--listen [::]:0", kit.ExitUsage, "takes TLS"},
		{"--listen example.org:0", kit.ExitUsage, "takes TLS"},
		{"--tls-cert x", kit.ExitUsage, "give both"},
		{"--self-signed --tls-cert x --tls-key y", kit.ExitUsage, "use one of them"},
		{"--tls-cert /nowhere --tls-key /nowhere", kit.ExitFailure, "--tls-cert: open /nowhere"},
		{"--token-file " + file("wide", strings.Repeat("x", 30)+"\n", 0o644), kit.ExitFailure, "can be read by others (mode 0644): chmod 600"},
		{"--token-file " + file("short", "secret\n", 0o600), kit.ExitFailure, "at least 16 characters"},
		{"--token-file " + link, kit.ExitFailure, "read token"},
		{"--token-file " + dir, kit.ExitFailure, "is no file"},
		{"-r " + file("no.pcap", "no capture", 0o600), kit.ExitFailure, "--read: read capture"},
		{"-r /nowhere", kit.ExitFailure, "no such file"},
	} {
		_, stderr, code := clitest.Radar(t, append([]string{"serve", "--listen", taken.Addr().String()}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "xxxx") {
			t.Errorf("serve %s: code %d, want %d; %q lacks %q", c.args, code, c.code, stderr, c.want)
		}
	}
}

// TestHostile: what no client sends does no harm, and is refused.
func TestHostile(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", filepath.Join(t.TempDir(), "state"))
	s := serve(t, "--listen", "0")
	token := []string{"Authorization", "Bearer " + s.token()}
	for name, c := range map[string]struct {
		method, path, body string
		want               int
	}{
		"deep JSON":              {"PUT", intents, strings.Repeat("[", 100000), 422},
		"deep YAML":              {"PUT", intents, strings.Repeat("- ", 100000), 422},
		"deep objects":           {"PUT", intents, strings.Repeat("{a: ", 100000), 422},
		"a YAML bomb":            {"PUT", intents, "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nintents: [*c,*c,*c]", 422},
		"no JSON":                {"POST", intents, "\x00\xff", 422},
		"a domain of dots":       {"GET", "/api/v1/domains/%2e%2e%2f%2e%2e/paths", "", 404},
		"a domain named labs":    {"GET", "/api/v1/domains/labs/paths", "", 404},
		"a long domain":          {"GET", "/api/v1/domains/" + strings.Repeat("a", 200) + "/paths", "", 422},
		"a long filter":          {"GET", "/api/v1/domains/x/paths?filter=" + strings.Repeat("(", 2000), "", 422},
		"a filter of nonsense":   {"GET", "/api/v1/domains/x/paths?filter=" + strings.Repeat("(", 900), "", 422},
		"too many values":        {"GET", "/api/v1/domains/x/paths?" + strings.Repeat("src=10.0.0.1&", 100), "", 422},
		"an unknown parameter":   {"GET", "/api/v1/domains/x/paths?lsat=1", "", 422},
		"a negative number":      {"GET", "/api/v1/domains/x/packets?limit=-1", "", 422},
		"an unknown topic":       {"GET", "/api/v1/domains/x/events?topic=all", "", 422},
		"an unknown path":        {"GET", "/api/v1/secret", "", 404},
		"a file above the page":  {"GET", "/..%2f..%2fetc/passwd", "", 404},
		"a method that is none":  {"BREW", domains, "", 405},
		"a domain that is none":  {"GET", "/api/v1/domains/nosuch/paths", "", 404},
		"an intent with no name": {"POST", intents, `{"slice":{"dport":["80"]}}`, 422},
	} {
		headers := token
		var body *strings.Reader
		code, text := 0, ""
		if c.body == "" {
			code, _, text = s.ask(c.method, c.path, nil, headers...)
		} else {
			body = strings.NewReader(c.body)
			code, _, text = s.ask(c.method, c.path, body, headers...)
		}
		if code != c.want {
			t.Errorf("%s: %d, want %d: %.300s", name, code, c.want, text)
		}
	}
	// The answer may be lost, for the rest of the body is not read.
	big, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.address+intents, strings.NewReader(`{"name":"`+strings.Repeat("a", 2<<20)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	big.Header.Set("Content-Type", "application/json")
	big.Header.Set(token[0], token[1])
	if response, err := s.client.Do(big); err == nil {
		response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a body of 2 MiB: %d", response.StatusCode)
		}
	}
	// Headers are bounded, and so is the time for them.
	for name, send := range map[string]string{
		"headers of 1 MiB": "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n",
		"half a request":   "GET / HTTP/1.1\r\nHost: local",
		"no HTTP":          "\x16\x03\x01\x02\x00\r\n\r\n",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(send)) // it may be cut off before all is sent
		_ = c.SetReadDeadline(time.Now().Add(clitest.Patience))
		if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && !strings.Contains(line, " 431 ") && !strings.Contains(line, " 400 ") && !strings.Contains(line, " 408 ") {
			t.Errorf("%s: %q", name, line)
		} else if e, ok := err.(net.Error); ok && e.Timeout() {
			t.Errorf("%s: the connection stays", name)
		}
		c.Close()
	}
	if code, _, _ := s.ask(http.MethodGet, domains, nil); code != http.StatusOK {
		t.Errorf("after all that: %d", code)
	}
	log, err := os.ReadFile(s.log)
	if err != nil || bytes.Contains(log, []byte("panic")) {
		t.Errorf("%v, %s", err, log)
	}
}
