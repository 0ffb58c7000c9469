// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"errors"
	"os"

	"github.com/google/renameio/v2"
)

// WriteFile writes a file that a user has named, all of it or nothing. What is there and is no regular file, such as
// /dev/stdout or a pipe, is written to, and stays what it is.
func WriteFile(path string, b []byte, options ...renameio.Option) error {
	if info, err := os.Lstat(path); err != nil || info.Mode().IsRegular() {
		return renameio.WriteFile(path, b, 0o644, options...)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	return errors.Join(err, file.Close())
}
