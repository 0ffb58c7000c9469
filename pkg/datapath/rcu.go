// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"os"
)

// manyHooks is from how many hooks on it is worth to hurry.
const manyHooks = 64

const sysExpedited = "/sys/kernel/rcu_expedited"

// expeditedPath is another file in tests.
var expeditedPath = sysExpedited

// hurry lets the kernel wait for grace periods the fast way until the returned
// function is called. Each change of a TCX hook waits for one: about 8 ms, or 17
// seconds for a thousand ports, against 12 us each. Expedited grace periods
// interrupt all CPUs, so only for the moment and only where there are many hooks;
// where the file cannot be written it just takes longer. A process killed
// meanwhile leaves the switch on, which costs a little CPU and nothing else.
func hurry(hooks int) (done func()) {
	was, err := os.ReadFile(expeditedPath)
	if err != nil || hooks < manyHooks || string(bytes.TrimSpace(was)) != "0" {
		return func() {}
	}
	set := func(value string) { _ = os.WriteFile(expeditedPath, []byte(value), 0o644) }
	set("1")
	return func() { set("0") }
}
