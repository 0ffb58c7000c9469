// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// network is a domain h1 - r-1 - h2, whose router has a name with a dash.
func network() *domain.Domain {
	d := &domain.Domain{Name: "lab"}
	for i, name := range []string{"h1", "r-1", "h2", "gone"} {
		d.Nodes = append(d.Nodes, domain.Node{ID: uint16(i + 1), Name: name, Removed: name == "gone"})
	}
	for i, p := range []domain.Port{{Node: 1, Name: "eth0"}, {Node: 2, Name: "eth0"}, {Node: 2, Name: "eth1"}, {Node: 3, Name: "eth0"}} {
		p.ID = uint16(i + 1)
		d.Ports = append(d.Ports, p)
	}
	return d
}

// Conditions mean what they say.
func TestParseCondition(t *testing.T) {
	for text, want := range map[string]Condition{
		"loss > 10 in 1s":                      {kind: losses, count: 10, within: time.Second},
		"  loss   > 0 in 100ms ":               {kind: losses, within: 100 * time.Millisecond},
		"loss.r-1 > 3 in 2s":                   {kind: losses, at: end{"r-1", ""}, count: 3, within: 2 * time.Second},
		"loss.r-1/eth1 > 3 in 2s":              {kind: losses, at: end{"r-1", "eth1"}, count: 3, within: 2 * time.Second},
		"p99 link h1-r-1 > 5ms in 1s":          {kind: quantile, quantile: 0.99, from: end{"h1", ""}, to: end{"r-1", ""}, limit: 5 * time.Millisecond, within: time.Second},
		"p50 r-1/eth1-h2/eth0 > 20us in 500ms": {kind: quantile, quantile: 0.5, from: end{"r-1", "eth1"}, to: end{"h2", "eth0"}, limit: 20 * time.Microsecond, within: 500 * time.Millisecond},
		"queue r-1/eth1 > 10ms":                {kind: queue, at: end{"r-1", "eth1"}, limit: 10 * time.Millisecond},
		"path change":                          {kind: pathChange},
	} {
		c, err := ParseCondition(text, network())
		if want.Text = strings.Join(strings.Fields(text), " "); err != nil || !reflect.DeepEqual(*c, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, c, err, want)
		}
	}
}

// What is wrong with a condition is named, and what there could be.
func TestConditionErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 `no condition begins with "": there are "loss > N in TIME"`,
		"lost > 3 in 1s":                   `no condition begins with "lost": there are "loss > N in TIME", "loss.NODE > N in TIME"`,
		"loss":                             `"" where "> LIMIT" is needed`,
		"loss >= 3 in 1s":                  `">=" where "> LIMIT" is needed`,
		"loss > x in 1s":                   `"x": use a number of packets, 0 to 1048576`,
		"loss > 2000000 in 1s":             `"2000000": use a number of packets`,
		"loss > 3":                         `"" where "in TIME" is needed`,
		"loss > 3 in 2":                    `"2": use a time longer than 0s, such as 5ms or 1s, 1h0m0s at most`,
		"loss > 3 in 2h":                   `"2h": use a time`,
		"loss > 3 in 1s now":               `"now" is too much`,
		"loss.r2 > 3 in 1s":                `there is no node "r2" (did you mean "h2"?): there are h1, h2, r-1`,
		"loss.gone > 3 in 1s":              `there is no node "gone": there are h1, h2, r-1`,
		"loss. > 3 in 1s":                  `there is no node ""`,
		"loss.r-1/eth7 > 3 in 1s":          `node r-1 has no port "eth7": it has eth0, eth1`,
		"queue r-1 > 3ms":                  `"r-1" is no port: use NODE/PORT`,
		"queue r-1/ > 3ms":                 `"r-1/" is no port: use NODE/PORT`,
		"queue r-1/eth1 > 0s":              `"0s": use a time longer than 0s`,
		"p99 link h1 > 3ms in 1s":          `"h1" is no link: use "link NODE-NODE" or "NODE/PORT-NODE/PORT"`,
		"p99 link h1-h3 > 3ms in 1s":       `there is no node "h3" (did you mean "h1"?): there are h1, h2, r-1`,
		"p99 h1-h2 > 3ms in 1s":            `"h1" is no port: use NODE/PORT`,
		"p98 link h1-h2 > 3ms in 1s":       `no condition begins with "p98"`,
		"p99 h1/eth0-r-1/eth9 > 3ms in 1s": `node r-1 has no port "eth9"`,
		"path":                             `"" behind "path": use "path change"`,
	} {
		c, err := ParseCondition(text, network())
		if err == nil || c != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
