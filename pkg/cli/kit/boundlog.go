// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
)

// mostLog is how long the agent's log can become, in bytes. State lies in memory (/run): a log
// that grows for months would take what the machine needs.
const mostLog = 1 << 20

// boundedLog appends to a file. When that is full it removes the older half of what is there.
type boundedLog struct {
	mu   sync.Mutex
	file *os.File
	most int64
}

// BoundLog bounds the file that w writes to, if it is one.
func BoundLog(w io.Writer) io.Writer {
	file, ok := Plainest(w).(*os.File)
	if !ok {
		return w
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return w // a terminal, a pipe, a journal: somebody else bounds it
	}
	return VisibleMessages(&boundedLog{file: file, most: mostLog})
}

// Write implements io.Writer.
func (l *boundedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := l.file.Stat()
	if err == nil && info.Size()+int64(len(b)) > l.most {
		l.shorten(info.Size())
	}
	return l.file.Write(b)
}

// shorten keeps the newer half of the file. It opens the file again: the agent has it for
// appending only.
func (l *boundedLog) shorten(size int64) {
	var newer []byte
	if file, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", l.file.Fd())); err == nil {
		newer, _ = io.ReadAll(io.NewSectionReader(file, size-l.most/2, l.most/2))
		file.Close()
	}
	if _, line, ok := bytes.Cut(newer, []byte("\n")); ok { // whole lines
		newer = line
	}
	if l.file.Truncate(0) != nil {
		return
	}
	_, _ = fmt.Fprintf(l.file, "older messages were removed: the log is kept below %d bytes\n%s", l.most, newer)
}
