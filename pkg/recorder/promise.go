// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/assertion"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// mostPromises bounds what each packet is held against.
const mostPromises = 64

// windowTrials is how many windows of a promise are open at once. Each packet counts in all of them, so the work for a
// packet is bounded; and a promise is judged so many times in each TIME.
const windowTrials = 4

// promise is an assertion of a file, and the packets that it is about.
type promise struct {
	of        *Condition // the file's, with the name of the promise
	assertion *assertion.Assertion
	selection *answer.Selection
}

// promises reads the file of "assert FILE in TIME". Its name may have spaces.
func (p *parser) promises(c *Condition) error {
	at := len(p.rest) - 2 // "in TIME"
	if at < 1 || p.rest[at] != "in" {
		return fmt.Errorf("use \"assert FILE in TIME\"")
	}
	name := strings.Join(p.rest[:at], " ")
	p.rest = p.rest[at:]
	if err := p.in(c); err != nil {
		return err
	}
	text, err := readFile(name)
	if err != nil {
		return err
	}
	file, err := assertion.Read(name, text)
	if err != nil {
		return err
	}
	if n := len(file.Assertions); n > mostPromises {
		return fault.Usage.Errorf("%s has %d assertions: a flight recorder watches %d at most", name, n, mostPromises)
	}
	var errs []error
	for i := range file.Assertions {
		a := &file.Assertions[i]
		s, err := p.selection(a)
		if err != nil {
			errs = append(errs, a.ErrorAt(name, err.Error()))
			continue
		}
		of := &Condition{Text: c.Text, kind: promises, within: c.within}
		c.promises = append(c.promises, promise{of, a, s})
	}
	return errors.Join(errs...)
}

// Absolute is a condition whose file is named from the root on: another process finds it, too.
func Absolute(text string) (string, error) {
	words := strings.Fields(text)
	at := len(words) - 2 // "in TIME"
	if at < 2 || words[0] != "assert" {
		return text, nil
	}
	name, err := filepath.Abs(strings.Join(words[1:at], " "))
	return strings.Join(append([]string{"assert", name}, words[at:]...), " "), err
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fault.Usage.Errorf("%w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, assertion.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// selection is what of the packets an assertion is about. Nodes and ports must be the domain's.
func (p *parser) selection(a *assertion.Assertion) (*answer.Selection, error) {
	spec := a.Select.Spec()
	for _, field := range []*string{&spec.Src, &spec.Dst} {
		if *field == "" {
			continue
		}
		list, err := answer.AddressesOf(p.of.Name, strings.Split(*field, ","))
		if err != nil {
			return nil, fmt.Errorf("select.%w", err)
		}
		*field = strings.Join(list, ",")
	}
	s, err := answer.Select(spec)
	if err == nil && a.Select.Filter != "" {
		if err = s.Narrow(a.Select.Filter); err != nil {
			err = fmt.Errorf("filter: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("select.%w", err)
	}
	for _, node := range slices.Concat(a.Nodes(), s.Nodes()) {
		if _, err := p.end(node, false); err != nil {
			return nil, err
		}
	}
	for _, place := range a.Places() {
		if _, err := p.end(place, strings.Contains(place, "/")); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// judged is a promise over time.
type judged struct {
	promise
	trials []trial // by begin
	fails  bool    // it was broken when it was judged last
}

// trial is a promise in one window: of the packets whose end became known in it.
type trial struct {
	*assertion.Trial
	begin int64 // CLOCK_MONOTONIC
	first int64 // the first end of a packet, as T0: before begin, since packets are known later
}

// addPromises holds a packet against the promises that are about it.
func (w *watch) addPromises(p *packet.Packet) {
	var r *record.Record
	for i := range w.judged {
		j := &w.judged[i]
		if !j.selection.Match(p, w.of) {
			continue
		}
		if r == nil {
			r = w.records.Record(p)
		}
		for k := range j.trials {
			t := &j.trials[k]
			t.Add(r)
			t.first = min(t.first, int64(p.T0)+max(p.LastNs, 0))
		}
	}
}

// judge judges the windows that have ended, and begins new ones. It is met by the first window in which a promise is
// broken that held before, or of which nothing was known.
func (w *watch) judge() {
	now := w.now()
	for i := range w.judged {
		j := &w.judged[i]
		for len(j.trials) > 0 && j.trials[0].begin+int64(w.within) <= now {
			w.judgeOne(j, &j.trials[0])
			j.trials = slices.Delete(j.trials, 0, 1)
		}
		if n := len(j.trials); n == 0 || now-j.trials[n-1].begin >= int64(w.within)/windowTrials {
			j.trials = append(j.trials, trial{assertion.New(j.assertion), now, math.MaxInt64})
		}
	}
}

func (w *watch) judgeOne(j *judged, t *trial) {
	r := t.Result(func() string { return "" })
	before := j.fails
	j.fails = r.Verdict == assertion.Fails && !r.Undecided
	if before || !j.fails {
		return
	}
	value := fmt.Sprintf("%q (line %d) is broken: %s, promised: %s", r.Name, r.Line, r.Measured, r.Promised)
	w.seen = append(w.seen, met{j.of, min(t.begin, t.first), t.begin + int64(w.within), value})
}
