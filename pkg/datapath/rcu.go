// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// awaitPrograms returns when no BPF program runs any more that had begun before.
func awaitPrograms() {
	const global = 1 // MEMBARRIER_CMD_GLOBAL waits for an RCU grace period
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		time.Sleep(50 * time.Millisecond) // refused with nohz_full
	}
}

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
