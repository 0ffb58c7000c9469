// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"sync"
	"testing"
)

// scope is a part of a test that cleans up when it ends, before the test does.
type scope struct {
	testing.TB
	mu   sync.Mutex
	list []func()
}

// Cleanup calls f when the part ends.
func (s *scope) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, f)
}

// end cleans up, the newest first.
func (s *scope) end() {
	for {
		s.mu.Lock()
		n := len(s.list)
		if n == 0 {
			s.mu.Unlock()
			return
		}
		f := s.list[n-1]
		s.list = s.list[:n-1]
		s.mu.Unlock()
		f()
	}
}
