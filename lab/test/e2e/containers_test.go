// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/dockertest"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// containersAtOnce are made side by side: Docker takes a second or more for each.
const containersAtOnce = 4

// engineFailed is how docker run ends if the engine has made no container. On a busy machine it
// does not always: once in ten is its own affair.
const engineFailed = 125

// echoRE is what ping says of an echo that came back as it was sent: no router is between.
var echoRE = regexp.MustCompile(`(?m)^\d+ bytes from [0-9.]+: seq=\d+ ttl=64 time=`)

// TestContainersComeAndGo starts containers of a label that is followed, each of which
// exchanges some packets with one that stays, and ends; meanwhile flows at full rate go
// through routers of the same domain. No packet of either may be lost or differ, the domain
// forgets the containers, and no program hangs on nothing.
func TestContainersComeAndGo(t *testing.T) {
	need.Nightly(t) // TestInterfacesComeAndGo, and pkg/vnet/selector and pkg/cli/domain with containers
	n := times(1000)
	ctx := lifetime(t)
	engine := dockertest.New(t)
	network := engine.Network("net")
	t.Cleanup(func() { // a client that ended too early leaves its container
		if ids := engine.Docker("ps", "--all", "--quiet", "--filter", "label="+engine.Label()); ids != "" {
			engine.Docker(append([]string{"rm", "--force"}, strings.Fields(ids)...)...)
		}
	})
	stays := engine.Run("stays", "--network", network)
	address := stays.Address()
	net := startNetwork(ctx, t, "chain")
	f := startStopFlows(t, net)
	rad := net.attach(t, routers(net.nodes()), "--watch-containers", "docker:label="+engine.Label())
	_, before := rad.tcxLinks(t)

	var echoes, missing atomic.Int64
	var first, why atomic.Pointer[string]
	var makers sync.WaitGroup
	var made, refused atomic.Int64
	for maker := range containersAtOnce {
		rnd := rand.New(rand.NewPCG(3, uint64(maker)))
		makers.Go(func() {
			for made.Add(1) <= int64(n) {
				count := 2 + rnd.IntN(10)
				out, err := exec.CommandContext(ctx, "docker", "run", "--rm", "--label", engine.Label(), "--network", network,
					engine.Image, "ping", "-c", fmt.Sprint(count), "-i", "0.1", "-W", "10", "-s", "1000", address).CombinedOutput()
				if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == engineFailed && !bytes.Contains(out, []byte("PING")) {
					refused.Add(1)
					text := strings.TrimSpace(string(out))
					why.CompareAndSwap(nil, &text)
					continue
				}
				back := len(echoRE.FindAll(out, -1))
				echoes.Add(int64(back))
				if err != nil || back != count {
					missing.Add(int64(max(1, count-back)))
					text := fmt.Sprintf("%d of %d echoes: %v\n%s", back, count, err, out)
					first.CompareAndSwap(nil, &text)
				}
			}
		})
	}
	makers.Wait()
	report := &oracle.Report{Times: n, Title: fmt.Sprintf("containers made and removed %d times under full load", n)}
	echoed := &oracle.Row{Check: "echoes in containers", Compared: int(echoes.Load()), Wrong: int(missing.Load())}
	if text := first.Load(); text != nil {
		echoed.Findings = []string{*text}
	}
	if n := refused.Load(); n > 0 {
		echoed.Note = fmt.Sprintf("%d containers not made by Docker: %s", n, *why.Load())
		if n > int64(times(1000)/10) {
			echoed.Wrong += int(n)
		}
	}
	left := rad.awaitContainers(ctx, t, stays.Name, before)
	account := rad.account(t, f)
	report.Add(append(f.since("whole run"), echoed, account,
		&oracle.Row{Check: "containers that joined", Compared: left.joined, Wrong: max(0, n/4-left.joined), Note: "others ended too soon"},
		&oracle.Row{Check: "containers that are left", Compared: 1, Wrong: len(left.live), Findings: left.live},
		&oracle.Row{Check: "links of ours on an interface", Compared: left.links, Wrong: left.defunct - before})...) // none: no TCX?
	keepReport(t, report)
	if !report.OK() {
		t.Error("packets are lost, differ or are not accounted for, or something is left: see the table")
	}
}

// afterContainers is what containers have left behind.
type afterContainers struct {
	joined         int      // containers that have been in the domain
	live           []string // that still are
	links, defunct int      // TCX links of ours, and those without an interface
}

// awaitContainers waits until no container but the one that stays is in the domain, and
// nothing hangs on an interface that is gone but what did before, or goneMost is over.
func (r *radar) awaitContainers(ctx context.Context, t *testing.T, stays string, before int) afterContainers {
	t.Helper()
	for end := time.Now().Add(goneMost()); ; time.Sleep(100 * time.Millisecond) {
		d, err := domain.Load(r.domain)
		if err != nil {
			t.Fatal(err)
		}
		var left afterContainers
		for _, n := range d.Nodes {
			if n.Auto || n.Name == stays || !strings.HasPrefix(n.Spec, "docker:") {
				continue
			}
			if left.joined++; !n.Removed {
				left.live = append(left.live, n.Name)
			}
		}
		left.links, left.defunct = r.tcxLinks(t)
		if len(left.live) == 0 && left.defunct <= before || time.Now().After(end) || ctx.Err() != nil {
			return left
		}
	}
}
