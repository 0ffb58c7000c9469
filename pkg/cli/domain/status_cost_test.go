// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/answer/status"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// What radar costs, with traffic: the agent, and the hooks that packets pass.
func TestCost(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	if out := w.Radar(kit.ExitOK, "status"); strings.Contains(out, "cost") {
		t.Errorf("without -o wide:\n%s", out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ping := w.Lab.Command(ctx, "h1", "ping", "-q", "-i", "0.002", "10.0.2.2")
	if err := ping.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = ping.Wait() })
	shown := regexp.MustCompile(`(?m)^agent's cost +[\d.]+ % of one core since it started, [\d.]+ MiB\n(.*\n)?hooks' cost +.*(in|e)gress [\d.]+[nu]s \(\d+ runs\)`)
	nstest.WaitFor(t, "hooks that were measured", func() bool { return shown.MatchString(w.Radar(kit.ExitOK, "status", "-o", "wide")) })
	var v status.View
	if err := json.Unmarshal([]byte(w.Radar(kit.ExitOK, "status", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	if v.Cost.Agent == nil || v.Cost.Agent.Bytes < 1<<20 || v.Cost.Agent.AgeNs <= 0 {
		t.Errorf("the agent: %+v", v.Cost.Agent)
	}
	for _, hook := range []string{"ingress", "egress"} {
		i := slices.IndexFunc(v.Cost.Hooks, func(h status.HookCost) bool { return h.Hook == hook })
		if i < 0 || v.Cost.Hooks[i].Runs == 0 || v.Cost.Hooks[i].NsPerRun <= 0 {
			t.Errorf("%s: %+v", hook, v.Cost.Hooks)
		}
	}
	w.Kill()
	if out := w.Radar(kit.ExitOK, "status", "-o", "wide"); !regexp.MustCompile(`(?m)^agent's cost +-$`).MatchString(out) {
		t.Errorf("without an agent:\n%s", out)
	}
}

// What is not known is "-", with what to do.
func TestCostUnknown(t *testing.T) {
	for want, v := range map[string]*status.Cost{
		"hooks' cost   -: nothing passed while the kernel measured (sysctl kernel.bpf_stats_enabled=1 lets it go on)": {},
		"hooks' cost   -: not allowed (as root: sysctl kernel.bpf_stats_enabled=1)":                                   {Why: "not allowed"},
		"hooks' cost   egress 123ns (7 runs), kfree_skb 1.50us (2 runs)":                                              {Hooks: []status.HookCost{{Hook: "egress", Runs: 7, NsPerRun: 123}, {Hook: "kfree_skb", Runs: 2, NsPerRun: 1500}}},
		"agent's cost  12.5 % of one core since it started, 34.0 MiB":                                                 {Agent: &status.AgentCost{Share: 0.125, Bytes: 34 << 20}},
	} {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		head := kit.NewTable(kit.Column{Title: "DOMAIN"}, kit.Column{Title: "default"})
		addCost(v, head)
		if err := head.Flush(w); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}
