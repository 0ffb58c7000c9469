// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// busyboxTar is the file system of the tests' image: this machine's busybox under
// all its names.
func busyboxTar() ([]byte, error) {
	path, err := staticBusybox()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the names of busybox: %w", err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	errs := []error{
		w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}),
		w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}),
	}
	_, err = w.Write(program)
	errs = append(errs, err)
	for name := range strings.FieldsSeq(string(list)) {
		if name == "busybox" {
			continue
		}
		errs = append(errs, w.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}))
	}
	return out.Bytes(), errors.Join(append(errs, w.Close())...)
}

// staticBusybox finds this machine's busybox.
func staticBusybox() (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", err
	}
	return path, checkStatic(path)
}

// checkStatic refuses a program that needs libraries, which the image has not.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs libraries: install busybox-static", path)
		}
	}
	return nil
}
