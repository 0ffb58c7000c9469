// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/peterh/liner"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/store/query"
)

const promptHelp = `A statement ends with ";". It may have several lines.

.tables            what there is
.schema [TABLE]    columns, units and meanings
.help              this
.quit, Ctrl-D      the end

Ctrl-C ends a query, or forgets the line. Tab completes names, Ctrl-R searches what was
asked before.
`

// readLine reads a line, until ctx ends: then it goes on reading, until the process ends.
func readLine(ctx context.Context, l *liner.State, mark string) (line string, err error) {
	if ctx.Err() != nil {
		return "", errInterrupted
	}
	done := make(chan struct{})
	var read string
	var failed error
	go func() {
		read, failed = l.Prompt(mark)
		close(done)
	}()
	select {
	case <-done:
		return read, failed
	case <-ctx.Done():
		return "", errInterrupted
	}
}

// prompt reads statements from the terminal until Ctrl-D.
func (a *asker) prompt(ctx context.Context) error {
	l := liner.NewLiner()
	defer l.Close()
	l.SetCtrlCAborts(true)
	l.SetTabCompletionStyle(liner.TabPrints)
	l.SetWordCompleter(complete)
	h := openHistory(l)
	defer h.save(l)
	fmt.Fprintf(a.Stderr, "radar: %s; \";\" ends a statement, .help says more\n", a.covered())
	pending := ""
	for {
		mark := "radar> "
		if pending != "" {
			mark = "   ... "
		}
		line, err := readLine(ctx, l, mark)
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case errors.Is(err, liner.ErrPromptAborted):
			pending = ""
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(a.Stderr)
			return nil
		case err != nil:
			return err
		}
		if pending == "" && strings.HasPrefix(line, ".") {
			l.AppendHistory(line)
			if a.dot(strings.Fields(line)) {
				return nil
			}
			continue
		}
		if pending += line + "\n"; query.Blank(pending) {
			pending = ""
			continue
		}
		list, rest := query.Split(pending)
		if len(list) > 0 {
			l.AppendHistory(strings.Join(strings.Fields(pending), " "))
		}
		for _, s := range list {
			a.ask(ctx, s.Text)
		}
		if pending = rest; query.Blank(pending) {
			pending = ""
		}
	}
}

// ask answers a statement of the prompt. Ctrl-C ends that alone.
func (a *asker) ask(ctx context.Context, text string) {
	defer a.ends.atSecond(os.Interrupt)()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	err := a.answer(ctx, text)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(a.Stderr, "radar: interrupted")
	case err != nil:
		_ = a.Out.Flush()
		fmt.Fprintf(a.Stderr, "radar: %v\n", err)
	}
	a.tellDamage()
}

// covered says what is asked.
func (a *asker) covered() string {
	first, last := a.recorded.Span()
	if first.IsZero() {
		return "there is no packet"
	}
	const layout = "2006-01-02 15:04:05"
	return fmt.Sprintf("packets from %s to %s UTC", first.UTC().Format(layout), last.UTC().Format(layout))
}

// dot follows a command that begins with a dot. It reports whether that ends the prompt.
func (a *asker) dot(words []string) (end bool) {
	switch words[0] {
	case ".quit", ".exit", ".q":
		return true
	case ".tables":
		t := kit.NewTable(kit.Column{Title: "TABLE"}, kit.Column{Title: "ROWS"})
		for _, v := range query.Views {
			t.Add(v.Name, v.About)
		}
		_ = t.Flush(a.Out)
	case ".schema":
		a.schema(words[1:])
	case ".help":
		fmt.Fprint(a.Out, promptHelp)
	default:
		fmt.Fprintf(a.Stderr, "radar: unknown command %s; .help names them\n", words[0])
	}
	_ = a.Out.Flush()
	return false
}

func (a *asker) schema(names []string) {
	t := kit.NewTable(kit.Column{Title: "TABLE"}, kit.Column{Title: "COLUMN"}, kit.Column{Title: "TYPE"}, kit.Column{Title: "UNIT"}, kit.Column{Title: "MEANING"})
	for _, v := range query.Views {
		if len(names) > 0 && !slices.Contains(names, v.Name) {
			continue
		}
		for _, c := range v.Columns {
			t.Add(v.Name, c.Name, c.Type, c.Unit, c.About)
		}
	}
	if t.Empty() {
		fmt.Fprintf(a.Stderr, "radar: there is no such table; .tables names them\n")
		return
	}
	_ = t.Flush(a.Out)
}

// keywords are words of SQL that are often typed.
var keywords = strings.Fields(`SELECT FROM WHERE GROUP BY ORDER LIMIT HAVING DISTINCT JOIN USING ON AS AND OR NOT IN IS NULL LIKE BETWEEN CASE WHEN THEN ELSE END
	WITH UNION ALL DESC ASC count( sum( min( max( avg( quantile_cont( quantile_disc( approx_quantile( count_if( time_bucket( DESCRIBE EXPLAIN`)

// complete completes the word at a place of a line: names of tables and columns, and words of SQL.
func complete(line string, pos int) (head string, list []string, tail string) {
	r := []rune(line)
	head, tail = string(r[:pos]), string(r[pos:])
	begin := strings.LastIndexFunc(head, func(c rune) bool {
		return !(c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z')
	}) + 1
	word := head[begin:]
	if i := strings.LastIndexByte(word, '.'); i > 0 { // of a table's alias
		begin, word = begin+i+1, word[i+1:]
	}
	seen := make(map[string]bool)
	add := func(name string) {
		if !seen[name] && len(name) >= len(word) && strings.EqualFold(name[:len(word)], word) {
			seen[name] = true
			list = append(list, name)
		}
	}
	for _, v := range query.Views {
		add(v.Name)
	}
	for _, v := range query.Views {
		for _, c := range v.Columns {
			add(c.Name)
		}
	}
	for _, w := range keywords {
		add(w)
	}
	for _, w := range []string{".help", ".tables", ".schema", ".quit"} {
		if begin == 0 {
			add(w)
		}
	}
	return head[:begin], list, tail
}

// history is what was asked before, in a file that only its owner reads.
type history struct{ path string }

func openHistory(l *liner.State) history {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return history{}
		}
		dir = filepath.Join(home, ".local", "state")
	}
	h := history{filepath.Join(dir, "radar", "sql_history")}
	if f, err := os.Open(h.path); err == nil {
		_, _ = l.ReadHistory(io.LimitReader(f, mostText))
		f.Close()
	}
	return h
}

// save writes it. That it cannot be kept is no failure of what was asked.
func (h history) save(l *liner.State) {
	if h.path == "" || os.MkdirAll(filepath.Dir(h.path), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_ = f.Chmod(0o600)
	_, _ = l.WriteHistory(f)
}
