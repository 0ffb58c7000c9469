// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ScriptError says that a startup script failed.
type ScriptError struct {
	Machine string
	Script  string // MACHINE.startup, shared.startup, or lab.conf:LINE
	Line    int    // of the command that failed; 0 if that is not known
	Reason  string // "exit status 2", or what else ended it
	Output  string // the end of what the script printed, with its commands
}

func (e *ScriptError) Error() string {
	where := e.Script
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d", e.Script, e.Line)
	}
	msg := fmt.Sprintf("machine %s: %s: %s", e.Machine, where, e.Reason)
	if e.Output != "" {
		msg += "\n    " + strings.ReplaceAll(e.Output, "\n", "\n    ")
	}
	return msg
}

// How much of a failed script's output its error repeats, and when the log is
// read.
const (
	tailLines = 12
	tailBytes = 16 << 10
)

// runScripts runs the startup scripts of all machines at the same time, those
// of one machine in turn, and waits for all of them.
func (l *Lab) runScripts(ctx context.Context, t *Topology, opts Options) error {
	limited, cancel := context.WithTimeout(ctx, opts.ScriptTimeout)
	defer cancel()
	errs := make([]error, len(t.Machines))
	var wg sync.WaitGroup
	for i := range t.Machines {
		wg.Go(func() { errs[i] = l.runMachine(limited, &t.Machines[i], opts.KeepGoing) })
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var failed []error
	for _, err := range errs {
		script := (*ScriptError)(nil)
		if opts.KeepGoing && errors.As(err, &script) {
			opts.Warn(script.Error())
		} else if err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (l *Lab) runMachine(ctx context.Context, m *Machine, keepGoing bool) error {
	log, err := os.OpenFile(l.LogPath(m.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("machine %s: create log: %w", m.Name, err)
	}
	defer log.Close()
	var failed []error
	for i, s := range m.Scripts {
		path := filepath.Join(l.dir(), fmt.Sprintf("%s.%d.sh", m.Name, i))
		if err := os.WriteFile(path, []byte(s.Body), 0o600); err != nil {
			return fmt.Errorf("machine %s: write script: %w", m.Name, err)
		}
		err := l.runScript(ctx, m, s, path, log, keepGoing)
		if err != nil && !keepGoing {
			return err
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// runScript runs one script. Its output goes to a file, not to a pipe: what it
// leaves running in the background keeps the output open.
func (l *Lab) runScript(ctx context.Context, m *Machine, s Script, path string, log *os.File, keepGoing bool) error {
	flags := "-ex"
	if keepGoing {
		flags = "-x"
	}
	before, err := log.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("machine %s: find end of log: %w", m.Name, err)
	}
	cmd := l.Command(ctx, m.Name, "sh", flags, path)
	cmd.Dir = "/" // as in a container
	cmd.Env = append(scriptEnv(m), sharedVariable+"="+l.sharedDir())
	cmd.Stdout, cmd.Stderr = log, log
	// A session of its own: no signal from the terminal reaches the script or
	// its daemons, and all of it can be killed at once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	start := time.Now()
	err = cmd.Run()
	if err == nil {
		return nil
	}
	failure := &ScriptError{Machine: m.Name, Script: s.Name, Reason: err.Error(), Output: tail(log.Name(), before)}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		failure.Reason = fmt.Sprintf("still running after %v (start daemons in the background)", time.Since(start).Round(time.Millisecond))
	case ctx.Err() == nil && !keepGoing:
		failure.Line = failedLine(s.Body, failure.Output)
	}
	return failure
}

// scriptEnv is the environment of a machine's scripts. They find the program that
// runs the lab, as they find radar in a container that has it.
func scriptEnv(m *Machine) []string {
	env := os.Environ()
	if self, err := os.Executable(); err == nil {
		env = append(env, "PATH="+filepath.Dir(self)+":"+os.Getenv("PATH"))
	}
	for _, e := range m.Env {
		env = append(env, e.Key+"="+e.Value)
	}
	return env
}

// tail returns the last lines of the log from offset on.
func tail(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	offset = max(offset, st.Size()-tailBytes)
	b := make([]byte, max(0, st.Size()-offset))
	n, err := f.ReadAt(b, offset)
	if n == 0 && err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b[:n]), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// failedLine finds the line of the last command traced. The shells at hand do
// not all know $LINENO, so it compares texts; 0 if none or several lines match.
// What a line starts in the background is traced by a shell of its own, at any
// later time, and is not what failed.
func failedLine(script, output string) int {
	lines := make(map[string][]int)
	background := make(map[string]bool)
	number := 0
	for line := range strings.SplitSeq(script, "\n") {
		number++
		line = strings.TrimSpace(line)
		lines[line] = append(lines[line], number)
		if command, ok := strings.CutSuffix(line, "&"); ok && !strings.HasSuffix(command, "&") {
			background[strings.TrimSpace(command)] = true
		}
	}
	last := ""
	for line := range strings.SplitSeq(output, "\n") {
		command, ok := strings.CutPrefix(line, "+ ")
		if ok && (!background[command] || len(lines[command]) > 0) {
			last = command
		}
	}
	// A command that is also started in the background looks the same.
	if last == "" || background[last] || len(lines[last]) != 1 {
		return 0
	}
	return lines[last][0]
}
