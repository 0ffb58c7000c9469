// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/host/background"
)

func TestMain(m *testing.M) { clitest.Main(m, cli.Run) }

// server is a `radar serve` that runs until the test ends.
type server struct {
	*testing.T
	address string // http://127.0.0.1:PORT
	said    string // on standard error, until it served
	process *exec.Cmd
	log     string
	client  *http.Client
}

var serving = regexp.MustCompile(`serving (https?://\S+)/\n`)

// serve starts one and waits until it listens.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	return serveBy(t, func(args []string) *exec.Cmd { return exec.Command(background.SelfPath, args...) }, args...)
}

// serveBy is serve by another command, which becomes it.
func serveBy(t *testing.T, by func(args []string) *exec.Cmd, args ...string) *server {
	t.Helper()
	s := &server{T: t, log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.process = by(append([]string{"serve"}, args...))
	s.process.Env = append(os.Environ(), clitest.ExecEnv+"=1")
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	nstest.Cleanup(t, func() {
		_ = s.process.Process.Signal(syscall.SIGTERM)
		if err := s.process.Wait(); err != nil {
			t.Errorf("radar serve ended with %v", err)
		}
		if t.Failed() {
			text, _ := os.ReadFile(s.log)
			t.Logf("radar serve said:\n%s", text)
		}
	})
	nstest.WaitFor(t, "radar serve to listen", func() bool {
		text, err := os.ReadFile(s.log)
		if found := serving.FindSubmatch(text); err == nil && found != nil && bytes.Contains(text, []byte("the token ")) {
			s.address, s.said = string(found[1]), string(text)
			return true
		}
		return false
	})
	s.client = &http.Client{Timeout: nstest.Patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	return s
}

// token is what the server's file has.
func (s *server) token() string {
	s.Helper()
	found := regexp.MustCompile(` is in (\S+)\n`).FindStringSubmatch(s.said)
	text, err := os.ReadFile(found[1])
	if err != nil {
		s.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// ask sends a request, and returns the answer's code, headers and body.
func (s *server) ask(method, path string, body io.Reader, headers ...string) (int, http.Header, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, s.address+path, body)
	if err != nil {
		s.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

// get is the answer to a GET that must succeed.
func (s *server) get(path string, into any) {
	s.Helper()
	code, _, text := s.ask(http.MethodGet, path, nil)
	if code != http.StatusOK {
		s.Fatalf("GET %s: %d %s", path, code, text)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		s.Fatalf("GET %s: %v\n%s", path, err, text)
	}
}

// steer sends a request with the token.
func (s *server) steer(want int, method, path, body string, into any) {
	s.Helper()
	code, _, text := s.ask(method, path, strings.NewReader(body), "Authorization", "Bearer "+s.token())
	if code != want {
		s.Fatalf("%s %s %s: %d, want %d\n%s", method, path, body, code, want, text)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			s.Fatal(err, text)
		}
	}
}
