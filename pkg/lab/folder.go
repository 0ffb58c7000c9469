// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// maxFile bounds the bytes read of one file of a lab folder, maxShared those of all shared files.
const (
	maxFile   = 1 << 20
	maxShared = 16 << 20
)

// sharedDir is the folder that all machines see.
const sharedDir = "shared"

// folder is the top level of a lab folder in memory.
type folder struct {
	files  map[string]string // lab.conf, parameters, needs, templates and scripts; lines end in \n
	shared map[string]string // the files in shared/, as they are
	other  []string          // further files, by name
	dirs   []string
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
		case e.IsDir() && name == sharedDir:
			if f.shared, err = readShared(fsys); err != nil {
				return nil, err
			}
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
	return name == confFile || name == paramsFile || name == needsFile ||
		strings.HasSuffix(name, scriptSuffix) || strings.HasSuffix(name, templateSuffix)
}

// readShared reads the files of shared/. What is in folders below it is left out.
func readShared(fsys fs.FS) (map[string]string, error) {
	entries, err := fs.ReadDir(fsys, sharedDir)
	if err != nil {
		return nil, fmt.Errorf("read lab folder: %w", err)
	}
	files := make(map[string]string)
	total := 0
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := readFile(fsys, path.Join(sharedDir, e.Name()), maxShared)
		if err != nil {
			return nil, err
		}
		if total += len(text); total > maxShared {
			return nil, fmt.Errorf("read lab folder: the files in %s/ have more than %d bytes", sharedDir, maxShared)
		}
		files[e.Name()] = text
	}
	return files, nil
}

// readText reads a file as Kathará does: without byte order mark, and with the
// line ends of Unix.
func readText(fsys fs.FS, name string) (string, error) {
	text, err := readFile(fsys, name, maxFile)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n"), nil
}

func readFile(fsys fs.FS, name string, most int64) (string, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return "", fmt.Errorf("read lab folder: %w", err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return "", fmt.Errorf("read lab folder: %w", err)
	}
	if int64(len(b)) > most {
		return "", fmt.Errorf("read lab folder: %s is larger than %d bytes", name, most)
	}
	return string(b), nil
}

// has reports whether the folder has a file or folder of that name.
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
