// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/statedir"
)

// Kinds of files, which their names begin with.
const (
	kindPackets = "packets"
	kindEvents  = "events"
)

// folderLayout is the name of the folder of an hour (UTC), nameLayout the time in the name of a file.
const (
	folderLayout = "2006-01-02T15"
	nameLayout   = "20060102T150405.000000000Z"
	ending       = ".parquet"
	unfinished   = ".tmp"
)

var (
	folderName     = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d$`)
	unfinishedName = regexp.MustCompile(`^\.(` + kindPackets + `|` + kindEvents + `)-.*\` + unfinished + `$`)
)

// folderOf is the folder of what begins at a time.
func folderOf(ns int64) string { return time.Unix(0, ns).UTC().Format(folderLayout) }

// syncDir makes names in a directory last.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// list are the files of a recording that have the name of a finished segment, below dir, in the order
// of their names. Symbolic links are none of them.
func list(dir string) (paths []string, err error) {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		if !folder.IsDir() || !folderName.MatchString(folder.Name()) {
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, folder.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // its last file was removed
		}
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ending) && !strings.HasPrefix(f.Name(), ".") {
				paths = append(paths, filepath.Join(folder.Name(), f.Name()))
			}
		}
	}
	return paths, nil
}

// listStable lists until two lists are the same: a compaction puts a file in the place of others, and
// a directory that is read meanwhile may show neither.
func listStable(dir string) ([]string, error) {
	before, err := list(dir)
	for range 1000 {
		if err != nil {
			return nil, err
		}
		var after []string
		if after, err = list(dir); err == nil && slices.Equal(before, after) {
			return after, nil
		}
		before = after
	}
	if err == nil {
		err = fmt.Errorf("%s: its files change faster than they can be listed", dir)
	}
	return nil, err
}

// openFile opens what must be a file: no link, and nothing that waits for somebody at its other end.
func openFile(path string) (*os.File, int64, error) {
	fd, err := statedir.Open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, 0, err
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// isFull reports whether an error says that there is no room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// isTooMany reports whether an error says that no more files can be open.
func isTooMany(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
