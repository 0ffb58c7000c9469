// SPDX-License-Identifier: Apache-2.0

package dropwatch

import (
	"fmt"
	"os"
	"testing"
)

// TestOfInit: whose task a drop interrupted, as far as the list and /proc say it.
func TestOfInit(t *testing.T) {
	w := &Watch{ofFirst: map[string]bool{"first": true}}
	const gone = "999999999" // no task has this number
	for _, c := range []struct {
		name, task, group string
		want              bool
	}{
		{"x", gone, "1", true},
		{"first", gone, "77", false}, // the list knows it
		{"x", "1", "-------", true},
		{"first", fmt.Sprint(os.Getpid()), "-------", false}, // it lives
		{"first", gone, "-------", true},
		{"x", gone, "-------", false},
		{unnamed, gone, "-------", true}, // it may be
	} {
		if got := w.ofInit(c.name, c.task, c.group); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	m := dropLine.FindStringSubmatch(" tokio-rt-worker-123     (     1) [001] ..s2.   12.345678: kfree_skb: skbaddr=0 rx_sk=0 protocol=2048 location=f+0x1/0x2 reason: QDISC_DROP")
	if m == nil || m[1] != "tokio-rt-worker" || m[2] != "123" || m[3] != "1" || m[6] != "QDISC_DROP" {
		t.Errorf("%q", m)
	}
}
