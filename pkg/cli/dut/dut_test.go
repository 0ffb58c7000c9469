// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/dut"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/background"
)

// measure runs radar dut between two ports of a world, and returns its report.
func measure(w *clitest.World, args ...string) *dut.Report {
	w.Helper()
	stdout, stderr, code := clitest.Radar(w.T, append([]string{"dut", "-o", "json", "--wait", "2s", "--duration", "20s", "--loopback", "none"}, args...)...)
	r := &dut.Report{}
	if err := json.Unmarshal([]byte(stdout), r); code != kit.ExitOK || err != nil {
		w.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	return r
}

// TestBesideDomain: ports that are attached can be measured, by the names that the domain gives nodes, and
// the domain knows each test packet: delivered, with nothing lost on its way.
func TestBesideDomain(t *testing.T) {
	for _, by := range []string{hook.ByTCX, hook.ByClsact} {
		t.Run(by, func(t *testing.T) {
			w := clitest.NewWorld(t)
			if by == hook.ByTCX && !hook.Probe().TCX {
				need.Lack(t, need.Kernel, "TCX: Linux 6.6")
			}
			w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--hook", by}, w.Lab.AttachArgs()...)...)
			r := measure(w, "--in", "h1/eth0", "--out", "h2/eth0", "--hook", by, "--sizes", "64,1518", "--count", "50", "--rates", "500pps")
			if r.In != "h1/eth0" || r.Hook != by || len(r.Rows) != 2 {
				t.Fatalf("%+v", r)
			}
			lengths := map[int]int{64: 46, 1518: 1500}
			for _, row := range r.Rows {
				if row.Sent != 50 || row.Received != 50 {
					t.Errorf("%+v", row.Counts)
				}
				nstest.WaitFor(t, "records of all packets", func() bool {
					delivered := 0
					for _, p := range w.Packets("--last", "1000", "--proto", "udp", "--dst", "10.0.2.2") {
						if int(p.Len) != lengths[row.Size] {
							continue
						}
						if p.State != "delivered" || len(p.Hops) != 3 || p.Hops[0].Node != "h1" || p.Hops[2].Node != "h2" {
							t.Fatalf("%+v", p)
						}
						delivered++
					}
					return delivered >= 50
				})
			}
			// Behind it the domain measures as before.
			w.PingMeasured(3)
		})
	}
}

// TestSelectors: ports are named as other commands name nodes.
func TestSelectors(t *testing.T) {
	w := clitest.NewWorld(t)
	port := func(node string) string { return "netns:" + w.Lab.NetNSPath(node) + "/eth0" }
	r := measure(w, "--in", "a="+port("h1"), "--out", port("h2"), "--round", "--sizes", "100", "--count", "20", "--rates", "200pps")
	if r.In != "a/eth0" || len(r.Rows) != 3 || r.Rows[2].Received != 20 {
		t.Errorf("%+v", r)
	}
	out, _, code := clitest.Radar(t, "__completeNoDesc", "dut", "--in", "netns:"+w.Lab.NetNSPath("r1")+"/")
	if want := "netns:" + w.Lab.NetNSPath("r1"); code != kit.ExitOK || out != want+"/eth0\n"+want+"/eth1\n:4\n" {
		t.Errorf("completed as %q", out)
	}
}

// TestPlotFile: the plot is written beside the rows.
func TestPlotFile(t *testing.T) {
	w := clitest.NewWorld(t)
	name := filepath.Join(t.TempDir(), "delay.svg")
	port := func(node string) string { return "netns:" + w.Lab.NetNSPath(node) + "/eth0" }
	out := w.Radar(kit.ExitOK, "dut", "--in", port("h1"), "--out", port("h2"), "--sizes", "64,512", "--count", "10", "--plot", name, "--subtract")
	if text, err := os.ReadFile(name); err != nil || !bytes.Contains(text, []byte("<svg")) || !strings.Contains(out, "\n 512  1kpps") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInterrupt: Ctrl-C prints what was measured until then, and leaves nothing.
func TestInterrupt(t *testing.T) {
	w := clitest.NewWorld(t)
	port := func(node string) string { return "netns:" + w.Lab.NetNSPath(node) + "/eth0" }
	cmd := exec.Command(background.SelfPath, "dut", "--in", port("h1"), "--out", port("h2"), "--loopback", "none", "--sizes", "64,128", "--rates", "50pps", "--count", "100000", "--duration", "1h")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	nstest.WaitFor(t, "packets to come", func() bool {
		out, err := w.Lab.Command(t.Context(), "h2", "sh", "-c", "ip -s -j link show eth0 | grep -o '\"rx\":{\"bytes\":[0-9]*,\"packets\":[0-9]*' | grep -o '[0-9]*$'").Output()
		return err == nil && len(strings.TrimSpace(string(out))) >= 2 // more than those that warm up
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != kit.ExitFailure || !strings.Contains(stderr.String(), "interrupted: this is what was measured until then") || !strings.Contains(stdout.String(), "\n  64  50pps") {
		t.Errorf("exit code %d\n%s%s", cmd.ProcessState.ExitCode(), stdout.String(), stderr.String())
	}
	for _, node := range []string{"h1", "h2"} {
		if out, err := w.Lab.Command(t.Context(), node, "tc", "qdisc", "show", "dev", "eth0").CombinedOutput(); err != nil || strings.Contains(string(out), "clsact") {
			t.Errorf("%s: %v\n%s", node, err, out)
		}
	}
}

// TestRefused: each command line makes no sense, and one line says what does.
func TestRefused(t *testing.T) {
	need.AsRoot(t)
	w := nstest.New(t, "a", "b")
	w.Veth("a", "e0", "b", "e0")
	a, b := "netns:"+w.Name("a")+"/e0", "netns:"+w.Name("b")+"/e0"
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "name the two ports at which the device hangs: --in NODE/PORT --out NODE/PORT"},
		{"--in A", "name the two ports"},
		{"--in a --out B", `--in "a": use NODE/PORT, such as netns:blue/eth0`},
		{"--in netns:nono/e0 --out B", "--in netns:nono/e0: node netns:nono: no such namespace"},
		{"--in A --out A1", "there is no interface e01; there is: e0"},
		{"--in netns:*/e0 --out B", "stands for "},
		{"--in A --out B --rates 0pps", `--rates: rate "0pps": use more than 0`},
		{"--in A --out B --rates fast", `--rates: rate "fast": use packets or bits a second`},
		{"--in A --out B --sizes 40", "size 40: a frame of IPv4 and UDP that radar's mark of 16 bytes fits into has 64 bytes or more"},
		{"--in A --out B --sizes 1519", "has an MTU of 1500, so frames have 1518 bytes at most: use a smaller size, or raise the MTU"},
		{"--in A --out B --count 0", "--count 0: use 1 to 1048576"},
		{"--in A --out B --to x", `--to "x": use an IP address`},
		{"--in A --out B --to-mac x", `--to-mac "x": use a MAC address`},
		{"--in A --out B --to 10.0.0.1 --ipv6", "10.0.0.1 is an IPv4 address, and --ipv6 asks for IPv6"},
		{"--in A --out B --plot x.gif", "--plot x.gif: use a name that ends in .svg, .pdf or .png"},
		{"--in A --out B --hook xdp", `unknown hook "xdp": use auto, tcx, clsact`},
		{"--in A --out B --loopback never", `unknown when "never": use first, only, none`},
		{"--in A --loopback only", "--loopback only has no device: leave --in and --out out"},
		{"--in A --out A --round", "--round needs two ports"},
		{"--in A --out B --subtract --loopback none", "--subtract needs the loop-back that comes first"},
		{"--rfc2544 --in A --out B --rates 1kpps", "are not for --rfc2544"},
		{"--rfc2544 --loopback only", "--rfc2544 measures a device"},
		{"--rfc2544 --in A --out B --tests speed", `--tests: no procedure is called "speed"`},
		{"--rfc2544 --in A --out B --round", "--rfc2544 measures one way"},
		{"--rfc2544 --in A --out B --max-rate 10Mpps", "--max-rate 10Mpps for 2s would be 20000000 packets of one trial"},
	} {
		args := []string{"dut"}
		for _, arg := range strings.Fields(c.args) {
			args = append(args, strings.NewReplacer("A", a, "B", b).Replace(arg))
		}
		stdout, stderr, code := clitest.Radar(t, args...)
		if code != kit.ExitUsage || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%s: exit code %d, %q%q; want %q", c.args, code, stdout, stderr, c.want)
		}
	}
}

// TestRights: who may not attach programs learns what is missing.
func TestRights(t *testing.T) {
	need.AsRoot(t)
	t.Setenv(clitest.ExecEnv, "1")
	for _, args := range [][]string{{"--loopback", "only"}, {"--in", "netns:a/e0", "--out", "netns:b/e0"}} {
		cmd := exec.Command(background.SelfPath, append([]string{"dut"}, args...)...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != kit.ExitKernel || !strings.Contains(string(out), "missing CAP_SYS_ADMIN") {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
	}
}
