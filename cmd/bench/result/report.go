// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/vnetradar/radar/cmd/bench/origin"
)

// Report is everything that a run found.
type Report struct {
	Version    int         `json:"v"`
	Time       time.Time   `json:"time"`
	Kernel     string      `json:"kernel"`
	CPU        string      `json:"cpu"`
	CPUs       int         `json:"cpus"`
	Commit     string      `json:"commit"`
	Programs   string      `json:"programs"` // see origin.Programs
	Short      bool        `json:"short"`    // figures are rough
	Benchmarks []*Measured `json:"benchmarks"`
}

// reportVersion goes up when the JSON changes for those who read it.
const reportVersion = 3

// Measured is what one benchmark found.
type Measured struct {
	Name    string  `json:"name"`
	About   string  `json:"about"`
	Seconds float64 `json:"seconds"`        // that it took
	Load    string  `json:"load,omitempty"` // load average when it began: how busy the machine was
	Tables  []Table `json:"tables"`
	Error   string  `json:"error,omitempty"`
}

// Table of figures. The first column is that of the rows' names.
type Table struct {
	Title   string   `json:"title,omitempty"`
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
}

// Row of a table.
type Row struct {
	Name  string `json:"name"`
	Cells []Cell `json:"cells"`
}

// Cell is a figure or a text.
type Cell struct {
	Figure *Figure `json:"figure,omitempty"`
	Text   string  `json:"text,omitempty"`
}

func (c Cell) String() string {
	if c.Text != "" {
		return c.Text
	}
	return c.Figure.String()
}

// add puts figures into a new row.
func (t *Table) Add(name string, figures ...*Figure) {
	row := Row{Name: name}
	for _, f := range figures {
		row.Cells = append(row.Cells, Cell{Figure: f})
	}
	t.Rows = append(t.Rows, row)
}

func (t *Table) Note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// write writes the table as text.
func (t *Table) Write(out io.Writer) error {
	if t.Title != "" {
		fmt.Fprintln(out, t.Title)
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(t.Columns, "\t"))
	for _, r := range t.Rows {
		fmt.Fprint(w, r.Name)
		for _, c := range r.Cells {
			fmt.Fprintf(w, "\t%s", c)
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	for _, n := range t.Notes {
		fmt.Fprintln(out, n)
	}
	return nil
}

// write writes what a benchmark found as text.
func (m *Measured) Write(out io.Writer) error {
	fmt.Fprintf(out, "%s: %s\n", m.Name, m.About)
	for i := range m.Tables {
		fmt.Fprintln(out)
		if err := m.Tables[i].Write(out); err != nil {
			return err
		}
	}
	if m.Error != "" {
		fmt.Fprintf(out, "\nfailed: %s\n", m.Error)
	}
	return nil
}

// Header says where and when the figures are from.
func (r *Report) Header() string {
	text := fmt.Sprintf("%s, Linux %s, %d CPUs (%s), commit %s, programs %s", r.Time.Format("2006-01-02"), r.Kernel, r.CPUs, r.CPU, r.Commit, r.Programs)
	if r.Short {
		text += "; a short run, its figures are rough"
	}
	return text
}

// New is a run that has measured nothing yet, of the programs of these objects.
func New(short bool, objects ...origin.Object) (*Report, error) {
	programs, err := origin.Programs(objects...)
	return &Report{
		Version: reportVersion, Time: time.Now().UTC().Truncate(time.Second), Kernel: origin.Kernel(), CPU: origin.CPU(),
		CPUs: runtime.NumCPU(), Commit: origin.Commit(), Programs: programs, Short: short,
	}, err
}

// Read reads what a run has written.
func Read(file string) (*Report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read figures (make bench writes them): %w", err)
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read figures from %s: %w", file, err)
	}
	if r.Version != reportVersion {
		return nil, fmt.Errorf("read figures from %s: its format is version %d, this is %d: make bench writes it anew", file, r.Version, reportVersion)
	}
	return r, nil
}

// Merge takes over what an earlier run found of benchmarks that this one has left out, if
// that run was like this one: of the same commit, unchanged, on the same machine. The same
// programs are not enough: agent and commands are measured too, and so is all that this
// command does itself. order has the names of all benchmarks.
func (r *Report) Merge(old *Report, order []string) {
	if strings.HasSuffix(r.Commit, "-dirty") || r.Commit == origin.Unknown || r.Commit != old.Commit ||
		r.Kernel != old.Kernel || r.CPU != old.CPU || r.CPUs != old.CPUs || r.Short != old.Short {
		return
	}
	found := make(map[string]*Measured)
	for _, m := range slices.Concat(old.Benchmarks, r.Benchmarks) {
		found[m.Name] = m
	}
	r.Benchmarks = nil
	for _, name := range order {
		if m := found[name]; m != nil {
			r.Benchmarks = append(r.Benchmarks, m)
		}
	}
}

// Times says which benchmark took how long, so that one may choose.
func (r *Report) Times() string {
	var text strings.Builder
	sum := 0.0
	for _, m := range r.Benchmarks {
		if m.Seconds > 0 { // that of targets is none
			fmt.Fprintf(&text, "%-13s %5.0f s\n", m.Name, m.Seconds)
			sum += m.Seconds
		}
	}
	fmt.Fprintf(&text, "%-13s %5.0f s; BENCH=regexp (-run) chooses", "all", sum)
	return text.String()
}

// Save writes the report as JSON.
func (r *Report) Save(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
