// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"sync"
	"time"

	"github.com/cilium/ebpf/btf"
)

// keepTypes is how long this process keeps the kernel's types after it asked for them. To read them takes some 40 ms of
// CPU, and an attach asks eight times. They take 4 MB, which an agent need not hold for days.
const keepTypes = 10 * time.Second

var types struct {
	sync.Mutex
	cache  *btf.Cache
	forget *time.Timer
}

// Types are the kernel's types (BTF). They are read when somebody asks the cache for them, and once for all who ask
// within some seconds. It is safe for concurrent use.
func Types() *btf.Cache {
	types.Lock()
	defer types.Unlock()
	if types.cache == nil {
		types.cache = btf.NewCache()
		types.forget = time.AfterFunc(keepTypes, forgetTypes)
	}
	types.forget.Reset(keepTypes)
	return types.cache
}

func forgetTypes() {
	types.Lock()
	defer types.Unlock()
	types.cache = nil
}
