// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// within runs f on a thread in a namespace; the thread ends with it.
func within(ns netns.NsHandle, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: nobody else gets a thread that is elsewhere
		if err := netns.Set(ns); err != nil {
			done <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}
