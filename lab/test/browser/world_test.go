// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
)

// world is a lab with radar attached, and a server.
type world struct {
	testing.TB
	radar string
	lab   string // its domain has the same name
	url   string // of the page, without a slash at the end
	token string // the file with the server's token

	stopServing func() // ends the server
}

// newWorld starts a lab, attaches radar to all its nodes, and starts radar serve. What is to happen before radar
// is attached, first does.
func newWorld(t testing.TB, lab string, first ...func(*world)) *world {
	t.Helper()
	needBrowser(t)
	w := &world{TB: t, radar: radarbin.Path(t), lab: nstest.Unique(), token: filepath.Join(t.TempDir(), "token")}
	nstest.Cleanup(t, func() { _ = exec.Command(w.radar, "lab", "down", w.lab).Run() })
	w.run("lab", "up", lab, "--name", w.lab)
	for _, f := range first {
		f(w)
	}
	nstest.Cleanup(t, func() { _ = exec.Command(w.radar, "detach", "--domain", w.lab, "--no-drain").Run() })
	w.run("attach", "-d", "--domain", w.lab, "--lab", w.lab)
	w.url = w.serve("127.0.0.1:0")
	return w
}

// run runs a command of radar, which has to succeed.
func (w *world) run(args ...string) string {
	w.Helper()
	out, err := exec.Command(w.radar, args...).CombinedOutput()
	if err != nil {
		w.Fatalf("radar %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// node runs a command in a node of the lab, and returns what it prints. It may fail: iperf3 does if its last packets are lost.
func (w *world) node(name string, command ...string) string {
	w.Helper()
	out, _ := exec.Command("ip", append([]string{"netns", "exec", w.lab + "-" + name}, command...)...).Output()
	return string(out)
}

// background starts a command in a node, which ends with the test, or when the returned function is called.
func (w *world) background(name string, command ...string) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", w.lab + "-" + name}, command...)...)
	if err := cmd.Start(); err != nil {
		cancel()
		w.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	stop = func() { cancel(); <-done }
	w.Cleanup(stop)
	return stop
}

var serving = regexp.MustCompile(`https?://[^/\s]+`)

// serve starts radar serve at an address, of which port 0 is one that is free, and returns its URL.
func (w *world) serve(address string) string {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, w.radar, "serve", "--listen", address, "--token-file", w.token)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StderrPipe()
	if err != nil {
		w.Fatal(err)
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.stopServing = sync.OnceFunc(func() { cancel(); _ = cmd.Wait() })
	w.Cleanup(w.stopServing)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url := serving.FindString(lines.Text()); url != "" {
			go func() {
				for lines.Scan() {
				}
			}()
			return url
		}
	}
	w.Fatal("radar serve names no address")
	return ""
}

// load sends more than the bottleneck lets through, and what the firewall drops, until stop is called.
func (w *world) load() (stop func()) {
	w.Helper()
	stopServer := w.background("h2", "iperf3", "-s")
	w.awaitServer("h2")
	// iperf3 on a client that is killed says nothing to its server: a second one is refused then.
	stopClient := w.background("h1", "iperf3", "-u", "-c", "10.0.4.2", "-b", "26M", "-l", "1000", "-t", "600")
	stopBlocked := w.background("h3", "bash", "-c", "while :; do echo blocked >/dev/udp/10.0.4.2/9999; sleep 0.2; done")
	return func() { stopClient(); stopBlocked(); stopServer() }
}

func (w *world) awaitServer(node string) {
	w.Helper()
	nstest.WaitFor(w, "iperf3 listens", func() bool { return strings.Contains(w.node(node, "ss", "-ltn"), ":5201") })
}

// dropped is what the queue of a port has dropped, as the kernel counts it.
func (w *world) dropped(node, port string) (skbs int) {
	w.Helper()
	var qdiscs []struct{ Drops int }
	if err := json.Unmarshal([]byte(w.node(node, "tc", "-s", "-j", "qdisc", "show", "dev", port, "root")), &qdiscs); err != nil {
		w.Fatal(err)
	}
	for _, q := range qdiscs {
		skbs += q.Drops
	}
	return skbs
}
