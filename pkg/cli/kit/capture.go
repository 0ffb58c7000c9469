// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/vnetradar/radar/pkg/fault"
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
		if info, err := file.Stat(); err == nil && info.IsDir() {
			closeFile()
			return nil, nil, fault.Usage.Errorf("%s is a directory: give a capture file%s", path, anyCapture(path))
		}
	}
	if capture, err = collect.OpenCapture(in); err != nil {
		closeFile()
		return nil, nil, fmt.Errorf("read capture %s: %w", path, err)
	}
	return capture, closeFile, nil
}

// anyCapture names a capture file in a directory, if there is one.
func anyCapture(dir string) string {
	for _, pattern := range []string{"*.pcap", "*.pcapng"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) > 0 {
			return ", such as " + found[0]
		}
	}
	return ""
}
