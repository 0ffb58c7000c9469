// SPDX-License-Identifier: Apache-2.0

package host

import "os"

// Name is the machine's name, as records carry it; "" if the kernel does not say.
func Name() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
