// SPDX-License-Identifier: Apache-2.0

// Package readme puts a text beside a recording that says to whoever finds it what it is, and how it is read.
package readme

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Name of the file.
const Name = "README.md"

//go:embed recording.md
var text []byte

// Remove removes the file if it is as radar writes it. One that somebody has changed is theirs.
func Remove(dir string) {
	path := filepath.Join(dir, Name)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(text)) {
		return
	}
	if own, err := os.ReadFile(path); err == nil && bytes.Equal(own, text) {
		_ = os.Remove(path) // if it stays, so does the directory
	}
}

// Write writes the file into the directory of a recording, unless something has that name: it may be the user's own.
func Write(dir string) error {
	path := filepath.Join(dir, Name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path)) // half of it would stay for ever
	}
	return nil
}
