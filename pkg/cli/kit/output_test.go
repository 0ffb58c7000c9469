// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What a user names is written to; only regular files are replaced.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // which does not wait for a writer
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, file, file, link} {
		before, known := os.Lstat(path)
		if err := WriteFile(path, []byte(path)); err != nil {
			t.Fatal(err)
		}
		after, err := os.Lstat(path)
		if err != nil || known == nil && before.Mode().Type() != after.Mode().Type() {
			t.Errorf("%s has become %v, %v", path, after, err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != link {
		t.Errorf("the file has %q, %v", b, err)
	}
	b := make([]byte, 1024)
	if info, _ := os.Lstat(pipe); info.Mode().IsRegular() {
		return // it has been told
	}
	if n, err := reader.Read(b); err != nil || string(b[:n]) != pipe {
		t.Errorf("the pipe has %q, %v", b[:n], err)
	}
}
