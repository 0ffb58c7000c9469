// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"os"
	"time"
)

// settled is after which time the stamp of a file is sure to differ from that of one that replaces it: clocks of file
// systems are coarse, and inode numbers are used again.
const settled = 2 * time.Second

// Stamp shows whether a file is another one than before, without reading it. The zero Stamp knows none.
type Stamp struct{ file os.FileInfo }

// Changed reports whether the file at path may be another one than at the last call, or is not there. The caller reads
// it after that, so that a change in between shows at the next call.
func (s *Stamp) Changed(path string) bool {
	file, err := os.Stat(path)
	if err != nil {
		s.file = nil
		return true
	}
	was := s.file
	s.file = nil
	if time.Since(file.ModTime()) >= settled {
		s.file = file
	}
	return was == nil || !os.SameFile(was, file) || !was.ModTime().Equal(file.ModTime()) || was.Size() != file.Size()
}

// IfChanged calls read if Changed says so. After an error of it the next call reads again.
func (s *Stamp) IfChanged(path string, read func() error) error {
	if !s.Changed(path) {
		return nil
	}
	err := read()
	if err != nil {
		s.file = nil
	}
	return err
}
