// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/nodes/dockertest"
	"github.com/vnetradar/radar/pkg/oracle"
)

// containersAtOnce are made side by side: Docker takes a second or more for each.
const containersAtOnce = 4

// echoRE is what ping says of an echo that came back as it was sent: no router is between.
var echoRE = regexp.MustCompile(`(?m)^\d+ bytes from [0-9.]+: seq=\d+ ttl=64 time=`)

// TestContainersComeAndGo starts containers of a label that is followed, each of which
// exchanges some packets with one that stays, and ends; meanwhile flows at full rate go
// through routers of the same domain. No packet of either may be lost or differ, the domain
// forgets the containers, and no program hangs on nothing.
func TestContainersComeAndGo(t *testing.T) {
	n := times(1000)
	ctx := deadline(t, 2*time.Minute+time.Duration(n)*4*time.Second)
	engine := dockertest.New(t)
	network := engine.Network("net")
	stays := engine.Run("stays", "--network", network)
	address := stays.Address()
	net := startNetwork(ctx, t, "chain")
	f := startStopFlows(t, net)
	rad := net.attach(t, routers(net.nodes()), "--watch-containers", "docker:label="+engine.Label())
	_, before := tcxLinks(t)

	var echoes, missing atomic.Int64
	var first atomic.Pointer[string]
	var makers sync.WaitGroup
	var made atomic.Int64
	for maker := range containersAtOnce {
		rnd := rand.New(rand.NewPCG(3, uint64(maker)))
		makers.Go(func() {
			for made.Add(1) <= int64(n) {
				count := 2 + rnd.IntN(10)
				out, err := exec.CommandContext(ctx, "docker", "run", "--rm", "--label", engine.Label(), "--network", network,
					engine.Image, "ping", "-c", fmt.Sprint(count), "-i", "0.1", "-W", "10", "-s", "1000", address).CombinedOutput()
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
	joined, live := rad.awaitContainers(ctx, t, stays.Name)
	links, defunct := tcxLinks(t)
	account := rad.account(t, f)
	report.Add(append(f.since("whole run"), echoed, account,
		&oracle.Row{Check: "containers that joined", Compared: joined, Note: "the others had ended before"},
		&oracle.Row{Check: "containers that are left", Compared: 1, Wrong: len(live), Findings: live},
		&oracle.Row{Check: "links of ours on an interface", Compared: links, Wrong: defunct - before})...) // none: no TCX?
	keepReport(t, report)
	if !report.OK() {
		t.Error("packets are lost, differ or are not accounted for, or something is left: see the table")
	}
}

// awaitContainers waits until no container but the one that stays is in the domain, 5 s by
// "make soak", else longer, as a busy machine may need. It returns how many have been, and
// those that still are.
func (r *radar) awaitContainers(ctx context.Context, t *testing.T, stays string) (joined int, live []string) {
	t.Helper()
	most := 5 * time.Second
	if !soak {
		most = 25 * time.Second
	}
	for end := time.Now().Add(most); ; time.Sleep(100 * time.Millisecond) {
		d, err := domain.Load(r.domain)
		if err != nil {
			t.Fatal(err)
		}
		joined, live = 0, nil
		for _, n := range d.Nodes {
			switch {
			case n.Auto || n.Name == stays || !strings.HasPrefix(n.Spec, "docker:"):
			case n.Removed:
				joined++
			default:
				joined++
				live = append(live, n.Name)
			}
		}
		if len(live) == 0 || time.Now().After(end) || ctx.Err() != nil {
			return joined, live
		}
	}
}
