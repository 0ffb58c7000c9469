// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// maxFile bounds the bytes read of one file of a lab folder.
const maxFile = 1 << 20

// folder is the top level of a lab folder in memory.
type folder struct {
	files map[string]string // lab.conf, parameters, templates and scripts; lines end in \n
	other []string          // further files, by name
	dirs  []string
}

// readFolder reads the files that describe a lab. Others are only noted.
func readFolder(fsys fs.FS) (*folder, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read lab folder: %w", err)
	}
	f := &folder{files: make(map[string]string)}
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."):
		case e.IsDir():
			f.dirs = append(f.dirs, name)
		case describesLab(name):
			if f.files[name], err = readText(fsys, name); err != nil {
				return nil, err
			}
		default:
			f.other = append(f.other, name)
		}
	}
	return f, nil
}

func describesLab(name string) bool {
	return name == confFile || name == paramsFile ||
		strings.HasSuffix(name, scriptSuffix) || strings.HasSuffix(name, templateSuffix)
}

// readText reads a file as Kathará does: without byte order mark, and with the
// line ends of Unix.
func readText(fsys fs.FS, name string) (string, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return "", fmt.Errorf("read lab folder: %w", err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("read lab folder: %w", err)
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("read lab folder: %s is larger than %d bytes", name, maxFile)
	}
	text := strings.TrimPrefix(string(b), "\ufeff")
	return strings.ReplaceAll(text, "\r\n", "\n"), nil
}

// has says whether the folder has a file or folder of that name.
func (f *folder) has(name string) bool {
	if _, ok := f.files[name]; ok {
		return true
	}
	for _, list := range [][]string{f.other, f.dirs} {
		for _, n := range list {
			if n == name {
				return true
			}
		}
	}
	return false
}

var errNoConf = errors.New("no lab.conf: this is no lab folder")
