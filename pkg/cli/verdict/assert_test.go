// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/answer/assertion"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// asserted are the results of a file of assertions, by their names.
func asserted(w *clitest.World, code int, text string, flags ...string) map[string]assertion.Result {
	w.Helper()
	path := filepath.Join(w.TempDir(), "assertions.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	stdout, stderr, got := clitest.Radar(w.T, append([]string{"assert", path, "-o", "json"}, flags...)...)
	if got != code {
		w.Fatalf("exit code %d, want %d\n%s%s", got, code, stdout, stderr)
	}
	results := make(map[string]assertion.Result)
	for dec := json.NewDecoder(strings.NewReader(stdout)); dec.More(); {
		var r assertion.Result
		if err := dec.Decode(&r); err != nil {
			w.Fatal(err)
		}
		results[r.Name] = r
	}
	return results
}

// want compares verdicts.
func want(w *clitest.World, got map[string]assertion.Result, verdicts map[string]assertion.Verdict) {
	w.Helper()
	if len(got) != len(verdicts) {
		w.Errorf("%d results, want %d", len(got), len(verdicts))
	}
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		if r := got[name]; r.Verdict != verdicts[name] {
			w.Errorf("%s %s, want %s: %+v", name, r.Verdict, verdicts[name], r)
		}
	}
}

// sendFlows sends datagrams from h1 to h2, from so many source ports.
const sendFlows = `
import socket
for port in range(20000, 20000 + %d):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", port))
    for i in range(%d): s.sendto(b"x" * 100, ("%s", 9000))
    s.close()`

// sentBy is how many packets the kernel says that a port has sent.
func sentBy(w *clitest.World, node, port string) float64 {
	w.Helper()
	var links []struct {
		Stats struct {
			Tx struct{ Packets float64 }
		} `json:"stats64"`
	}
	if err := json.Unmarshal([]byte(w.In(node, "ip", "-j", "-s", "link", "show", port)), &links); err != nil || len(links) != 1 {
		w.Fatalf("%v: %+v", err, links)
	}
	return links[0].Stats.Tx.Packets
}

const ecmpAssertions = `
assertions:
  - name: balanced
    select: {src: h1, dst: 10.0.2.1, proto: udp, dport: 9000}
    balance: {over: next_hops, at: s1, ways: 4, p: 1e-6}
  - name: balanced over paths
    select: {src: h1, proto: udp}
    balance: {ways: 4, p: 1e-6}
  - name: wrong weights
    select: {src: h1, proto: udp}
    balance: {over: next_hops, at: s1, weights: {s2: 9, s3: 1, s4: 1, s5: 1}}
  - name: a way too few
    select: {src: h1, proto: udp}
    balance: {over: next_hops, at: s1, ways: 3}
  - name: no loss
    select: {src: 10.0.1.1}
    no_loss: true
  - name: crosses the core
    select: {filter: udp and src host 10.0.1.1}
    crosses: [s1, s6]
  - name: never crosses s3
    select: {src: h1, proto: udp}
    never_crosses: s3
  - name: one path
    select: {src: h1, proto: udp}
    path: [h1, s1, s2, s6, h2]
  - name: no packets
    select: {src: h1, proto: tcp}
    no_loss: true
  - name: no packets may be
    select: {src: h1, proto: tcp}
    if_empty: pass
    no_loss: true
  - name: enough
    select: {src: h1, proto: udp, dport: 9000}
    packets: {at_least: 400, at_most: 400}
  - name: too many wanted
    select: {src: h1, proto: udp, dport: 9000}
    packets: {at_least: 401}
  - name: impossible
    select: {src: h1, proto: udp}
    latency: {p50: 1ns}
  - name: sure
    select: {src: h1, proto: udp}
    latency: {p50: 1h, p99: 1h, p99.9: 1h, max: 1h}
`

// TestECMP: flows are spread over four paths. The truth is what the ports of s1 have sent.
func TestECMP(t *testing.T) {
	w := clitest.NewWorldOf(t, "ecmp", nil)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Listen("h2", 9000)
	w.In("h1", "python3", "-c", fmt.Sprintf(sendFlows, 200, 2, "10.0.2.1"))
	w.Ended(400, "--proto", "udp", "--src", "h1")
	got := asserted(w, kit.ExitFailure, ecmpAssertions)
	const holds, fails = assertion.Holds, assertion.Fails
	want(w, got, map[string]assertion.Verdict{
		"balanced": holds, "balanced over paths": holds, "wrong weights": fails, "a way too few": fails, "no loss": holds,
		"crosses the core": holds, "never crosses s3": fails, "one path": fails, "no packets": fails, "no packets may be": holds,
		"enough": holds, "too many wanted": fails, "impossible": fails, "sure": holds,
	})
	if r := got["no packets"]; !strings.Contains(r.Cause, "no packet matches") {
		t.Errorf("an empty assertion does not say why: %+v", r)
	}
	if r := got["one path"]; len(r.Evidence) == 0 || len(w.Packets("--last", "0", "--src", "h1")) < 400 {
		t.Errorf("no evidence: %+v", r)
	}
	for i, next := range []string{"s2", "s3", "s4", "s5"} {
		n := sentBy(w, "s1", fmt.Sprintf("eth%d", i+1))
		if flows := got["balanced"].Values[next]; flows < 20 || n < 2*flows || n > 2*flows+20 { // 2 datagrams each, and neighbours
			t.Errorf("%v flows by %s, to which s1 has sent %v packets", flows, next, n)
		}
	}
	testCI(w)
}

// testCI looks at what CI systems get.
func testCI(w *clitest.World) {
	file, junit := filepath.Join(w.TempDir(), "lab.yaml"), filepath.Join(w.TempDir(), "results.xml")
	if err := os.WriteFile(file, []byte(strings.TrimPrefix(ecmpAssertions, "\n")), 0o600); err != nil {
		w.Fatal(err)
	}
	w.Setenv("GITHUB_ACTIONS", "true")
	stdout, stderr, code := clitest.Radar(w.T, "assert", file, "--junit", junit)
	if code != kit.ExitFailure || !strings.Contains(stdout, "balanced over paths") {
		w.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if found := regexp.MustCompile(`(?m)^::error file=.*lab.yaml,line=23,col=5,title=one path::promised h1 > s1 > s2 > s6 > h2, .*%0Apacket `).FindString(stderr); found == "" {
		w.Errorf("no annotation at the line of an assertion that fails:\n%s", stderr)
	}
	if n := strings.Count(stderr, "::error "); n != 7 {
		w.Errorf("%d annotations, want 7:\n%s", n, stderr)
	}
	text, err := os.ReadFile(junit)
	if err != nil {
		w.Fatal(err)
	}
	var suites struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Cases    []struct {
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil || len(suites.Suites) != 1 {
		w.Fatalf("%v: %s", err, text)
	}
	if s := suites.Suites[0]; s.Tests != 14 || s.Failures != 7 || len(s.Cases) != 14 || s.Cases[2].Failure == nil || s.Cases[0].Failure != nil {
		w.Errorf("JUnit: %+v", s)
	}
}
