// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"os"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// OpenCapture opens a capture file; - is standard input.
func (k *Kit) OpenCapture(path string) (capture *collect.Capture, closeFile func(), err error) {
	in, closeFile := k.Stdin, func() {}
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("read capture: %w", err)
		}
		in, closeFile = file, func() { file.Close() }
	}
	if capture, err = collect.OpenCapture(in); err != nil {
		closeFile()
		return nil, nil, fmt.Errorf("read capture %s: %w", path, err)
	}
	return capture, closeFile, nil
}
