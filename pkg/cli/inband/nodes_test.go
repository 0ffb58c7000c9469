// SPDX-License-Identifier: Apache-2.0

package inband_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/filter"
)

// newNodes is a - r - b, with a state directory and a domain of its own.
func newNodes(t *testing.T) *nstest.Net {
	t.Helper()
	n := nstest.New(t, "a", "r", "b")
	n.Chain()
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	t.Setenv("RADAR_DOMAIN", nstest.Unique())
	t.Setenv(clitest.ExecEnv, "1")
	t.Cleanup(func() {
		if stdout, stderr, code := clitest.Radar(t, "int", "detach", "--no-drain"); code != kit.ExitOK {
			t.Errorf("detach: code %d, %s%s", code, stdout, stderr)
		}
	})
	return n
}

// TestAttachRefuses: each thing that is wrong has one line, and nothing is attached.
func TestAttachRefuses(t *testing.T) {
	n := newNodes(t)
	r := n.Spec("r")
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "no node named"},
		{r, "what are they? --role"},
		{"--role sink", "no node named"},
		{"--role sink,transit " + r, "behind a port is another INT node (transit), or a host"},
		{"--role king " + r, `--role "king"`},
		{"--role sink " + r + "/e7", "has no port e7: it has e0, e1"},
		{"--role sink " + r + "/", "the name of the port is missing"},
		{"--role sink " + r + "/lo", "is the loopback interface"},
		{"--role sink netns:no-such-namespace/e0", "no such namespace"},
		{"--role sink nobody/e0", `node "nobody"`},
		{"--role transit --node-id 7 " + r + " " + n.Spec("a"), "--node-id 7 is one node's, and 2 are named"},
		{"--role sink --node-id 0 " + r + "/e0", "--node-id 0: use 1"},
		{"--role sink --instructions 0xfc40 " + r + "/e0", "bit 9 is not one that INT 2.1 knows"},
		{"--role sink --instructions 0 " + r + "/e0", "--instructions: there is none"},
		{"--role sink --instructions node-id,smell " + r + "/e0", `there is no "smell": use node-id`},
		{"--role sink --mode md1.0 --mark port=5000 " + r + "/e0", "INT 1.0 is not marked by a port"},
		{"--role sink --mark port=32766 " + r + "/e0", "that is the port of the reports"},
		{"--role sink --mark dscp=0 " + r + "/e0", "at least one of them"},
		{"--role sink --mode ms " + r + "/e0", `--mode "ms"`},
		{"--role sink --watch icmp " + r + "/e0", "--watch \"icmp\": INT is put into TCP and UDP, and no packet of these matches: use an expression such as 'udp port 5001'"},
		{"--role sink --hops 0 " + r + "/e0", "--hops 0"},
		{"--role sink --sample 0 " + r + "/e0", "--sample"},
		{"--role sink --collector nowhere " + r + "/e0", "use HOST:PORT"},
		{"--role sink --report 0.5 " + r + "/e0", "--report"},
		{"--role sink --quote 9999 " + r + "/e0", "--quote 9999: use 0 to 1280"},
		{"--role sink --mtu 10 " + r + "/e0", "--mtu 10"},
		{"--role sink --foreign eat " + r + "/e0", `--foreign "eat"`},
		{"--role sink --lease 1ms " + r + "/e0", "--lease 1ms"},
		{"--role source " + r, "no other node takes it off (attach a sink first: radar int attach --role sink NODE/PORT; --sink-elsewhere"},
	} {
		stdout, stderr, code := clitest.Radar(t, append([]string{"int", "attach"}, strings.Fields(c.args)...)...)
		lines := strings.Count(strings.TrimSpace(stderr), "\n")
		if code != kit.ExitUsage || !strings.Contains(stderr, c.want) || lines > 1 || stdout != "" {
			t.Errorf("%s: code %d, want %q\n%s%s", c.args, code, c.want, stderr, stdout)
		}
	}
	if _, stderr, code := clitest.Radar(t, "int", "status"); code != kit.ExitFailure || !strings.Contains(stderr, " is not attached (attach nodes with: radar int attach --domain ") {
		t.Errorf("status: code %d, %s", code, stderr)
	}
}

// TestAttachNotes: what is still missing is said, and what cannot work now.
func TestAttachNotes(t *testing.T) {
	n := newNodes(t)
	for _, c := range []struct {
		args []string
		want []string // on standard error; "!" before what must not be there
	}{
		{[]string{"--role", "source,sink", n.Spec("r") + "/e0"}, []string{"r gives INT to nothing yet", "radar int attach --role transit r"}},
		{[]string{"--role", "sink", n.Spec("b")}, []string{"r gives INT to nothing yet"}},
		{[]string{"--role", "transit", "r/e1"}, []string{"!yet"}},
		{[]string{"--collector", "203.0.113.9:32766", "--via", n.Spec("a")}, []string{"!cannot", "!no report"}},
		{[]string{"--collector", "[2001:db8::9]:32766", "--via", n.Spec("b")}, []string{"no report can be sent now: collector [2001:db8::9]:32766, from b: "}},
		{[]string{"--mtu", "1400", "--role", "transit", "r/e1"}, []string{"!yet"}},
	} {
		stdout, stderr, code := clitest.Radar(t, append([]string{"int", "attach"}, c.args...)...)
		if code != kit.ExitOK || !strings.Contains(stdout, "r takes INT from what leaves by e0") && !strings.Contains(stdout, "does nothing yet") && !strings.Contains(stdout, "gives INT to what comes in at e0 and leaves by e1") {
			t.Errorf("%v: code %d\n%s%s", c.args, code, stdout, stderr)
		}
		for _, want := range c.want {
			if text, not := strings.CutPrefix(want, "!"); strings.Contains(stderr, text) == not {
				t.Errorf("%v: %q\n%s", c.args, want, stderr)
			}
		}
	}
	if !filter.Available {
		return
	}
	_, stderr, code := clitest.Radar(t, "int", "attach", "--watch", "udp")
	if code != kit.ExitOK || !strings.Contains(stderr, "--watch matches the reports to [2001:db8::9]:32766, too: these never get INT") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if _, stderr, code = clitest.Radar(t, "int", "attach", "--watch", "udp and"); code != kit.ExitUsage || !strings.Contains(stderr, "--watch") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// TestAgentTroubles: what the agent cannot do is in the status, until it works again.
func TestAgentTroubles(t *testing.T) {
	n := newNodes(t)
	attach := func(args ...string) {
		t.Helper()
		if stdout, stderr, code := clitest.Radar(t, append([]string{"int", "attach"}, args...)...); code != kit.ExitOK {
			t.Fatalf("%s%s", stdout, stderr)
		}
	}
	says := func(want bool) {
		t.Helper()
		nstest.WaitFor(t, fmt.Sprintf("the trouble, which there is: %v", want), func() bool {
			stdout, stderr, code := clitest.Radar(t, "int", "status")
			return code == kit.ExitOK && strings.Contains(stdout+stderr, "the agent cannot send reports since ") == want
		})
	}
	attach("--role", "sink", "--collector", "[2001:db8::9]:32766", "--via", n.Spec("b"), n.Spec("r")+"/e0") // b has no route to it
	says(true)
	attach("--collector", "203.0.113.9:32766", "--via", n.Spec("a"))
	says(false)
}

func TestNodesCompletion(t *testing.T) {
	n := newNodes(t)
	if stdout, stderr, code := clitest.Radar(t, "int", "attach", "--role", "sink", n.Spec("r")+"/e0"); code != kit.ExitOK {
		t.Fatalf("%s%s", stdout, stderr)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"attach", "--role="}, "source\nsink\nsource,sink\ntransit\n"},
		{[]string{"attach", "--instructions=node-id,"}, "node-id,l1-ports\n"},
		{[]string{"attach", "--mode="}, "md\nmd1.0\nmx\nxd\n:"},
		{[]string{"attach", "r/"}, "r/e0\nr/e1\n"},
		{[]string{"attach", "netns:" + n.Name("a") + "/"}, "netns:" + n.Name("a") + "/e0\n"},
		{[]string{"attach", "net"}, "netns:\n"},
		{[]string{"detach", ""}, "r\nr/e0\n"},
	} {
		stdout, _, code := clitest.Radar(t, append([]string{"__complete", "int"}, c.args...)...)
		if code != kit.ExitOK || !strings.Contains(stdout, c.want) {
			t.Errorf("%v: code %d, want %q\n%s", c.args, code, c.want, stdout)
		}
	}
}
