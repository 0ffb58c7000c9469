// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

const (
	paramsFile     = "params.json"
	templateSuffix = ".tmpl"
)

// Param shapes a scenario. It is a whole number from Min to Max, or, where there
// is a Pattern, a text that matches all of it. A pattern should leave no
// character that means something to the shell: texts become part of scripts.
type Param struct {
	Name    string `json:"name"`
	Default int    `json:"default"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Text    string `json:"text"`    // the default, of a text
	Pattern string `json:"pattern"` // a regular expression
	Help    string `json:"help"`
}

// Range says which values the parameter takes, and its default, for help texts.
func (p *Param) Range() string {
	if p.Pattern != "" {
		return fmt.Sprintf("a text (default %s)", p.Text)
	}
	return fmt.Sprintf("%d to %d (default %d)", p.Min, p.Max, p.Default)
}

// value reads a value that was given for the parameter: an int or a string.
func (p *Param) value(s string) (any, error) {
	if p.Pattern != "" {
		if ok, err := regexp.MatchString("^(?:"+p.Pattern+")$", s); err != nil || !ok {
			return nil, paramErrorf("parameter %s=%s: use a text such as %s", p.Name, s, p.Text)
		}
		return s, nil
	}
	v, err := strconv.Atoi(s)
	if err != nil || v < p.Min || v > p.Max {
		return nil, paramErrorf("parameter %s=%s: use a whole number from %d to %d", p.Name, s, p.Min, p.Max)
	}
	return v, nil
}

// Scenario is a lab folder, plain or with parameters. A folder with parameters
// has a params.json (a list of Param) and templates (text/template, names that
// end in .tmpl). In a template, {{.N}} is the value of parameter N, and add, sub
// and seq FIRST LAST help with numbers. A template whose name has "@N" in it is
// rendered N times, with 1 to N for "@N" in the name and as {{.I}}.
//
// A Scenario does not change after NewScenario and may be used concurrently.
type Scenario struct {
	Name   string // the lab's name, where lab.conf gives none
	Source string // where it came from, for messages: a path, or "built-in NAME"
	Params []Param

	fsys   fs.FS
	folder *folder
	added  map[string]string // to the shared files
}

// ParamError says that a value given for a parameter cannot be used.
type ParamError struct{ Msg string }

func (e *ParamError) Error() string { return e.Msg }

// Share adds a file to those that all machines see.
func (s *Scenario) Share(name string, content []byte) {
	if s.added == nil {
		s.added = make(map[string]string)
	}
	s.added[name] = string(content)
}

func paramErrorf(format string, args ...any) error {
	return &ParamError{Msg: fmt.Sprintf(format, args...)}
}

// NewScenario reads a lab folder. name is what the folder is called.
func NewScenario(name, source string, fsys fs.FS) (*Scenario, error) {
	f, err := readFolder(fsys)
	if err != nil {
		return nil, err
	}
	s := &Scenario{Name: cleanName(name), Source: source, fsys: fsys, folder: f}
	if text, ok := f.files[paramsFile]; ok {
		if s.Params, err = parseParams(text); err != nil {
			return nil, fmt.Errorf("%s: %w", paramsFile, err)
		}
	}
	if !f.has(confFile) && !f.has(confFile+templateSuffix) {
		return nil, fmt.Errorf("%s: %w", source, errNoConf)
	}
	return s, nil
}

// OpenDir reads the lab folder at dir.
func OpenDir(dir string) (*Scenario, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("find lab folder: %w", err)
	}
	return NewScenario(filepath.Base(abs), abs, os.DirFS(abs))
}

func parseParams(text string) ([]Param, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	var params []Param
	if err := dec.Decode(&params); err != nil {
		return nil, fmt.Errorf("read parameters: %w", err)
	}
	for i, p := range params {
		if !envRE.MatchString(p.Name) || p.Name == "I" {
			return nil, fmt.Errorf("parameter name %q: use letters, digits and '_', not I alone", p.Name)
		}
		if p.Pattern != "" {
			if _, err := p.value(p.Text); err != nil {
				return nil, fmt.Errorf("parameter %s: default %q does not match pattern %q", p.Name, p.Text, p.Pattern)
			}
		} else if p.Default < p.Min || p.Default > p.Max {
			return nil, fmt.Errorf("parameter %s: default %d is not within %d to %d", p.Name, p.Default, p.Min, p.Max)
		}
		if slices.ContainsFunc(params[:i], func(q Param) bool { return q.Name == p.Name }) {
			return nil, fmt.Errorf("parameter %s is given twice", p.Name)
		}
	}
	return params, nil
}

// Topology renders and parses the scenario. set overrides the defaults of
// parameters; unknown names and values out of range are a *ParamError.
func (s *Scenario) Topology(set map[string]string) (*Topology, error) {
	f, err := s.render(set)
	if err != nil {
		return nil, err
	}
	t, err := parseFolder(f)
	if err != nil {
		return nil, err
	}
	t.Source = s.Source
	if t.Name == "" {
		t.Name = s.Name
	}
	return t, nil
}

// Export writes the scenario as a plain Kathará folder, with parameters filled
// in. dir is created if need be; a file that exists is an error, not replaced.
func (s *Scenario) Export(dir string, set map[string]string) error {
	f, err := s.render(set)
	if err != nil {
		return err
	}
	shared := f.shared
	if len(s.Params) == 0 {
		err, shared = os.CopyFS(dir, s.fsys), s.added
	} else {
		err = writeAll(dir, f.files)
	}
	if err == nil && len(shared) > 0 {
		err = writeAll(filepath.Join(dir, sharedDir), shared)
	}
	if err != nil {
		return fmt.Errorf("export lab: %w", err)
	}
	return nil
}

// writeAll writes files into a folder. None of them may be there.
func writeAll(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeNew(filepath.Join(dir, name), files[name]); err != nil {
			return err
		}
	}
	return nil
}

func writeNew(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(text); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// values checks set and fills in the defaults.
func (s *Scenario) values(set map[string]string) (map[string]any, error) {
	values := make(map[string]any, len(s.Params))
	for _, p := range s.Params {
		if values[p.Name] = p.Default; p.Pattern != "" {
			values[p.Name] = p.Text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		i := slices.IndexFunc(s.Params, func(p Param) bool { return p.Name == name })
		if i < 0 {
			return nil, s.unknownParam(name)
		}
		v, err := s.Params[i].value(set[name])
		if err != nil {
			return nil, err
		}
		values[name] = v
	}
	return values, nil
}

func (s *Scenario) unknownParam(name string) error {
	if len(s.Params) == 0 {
		return paramErrorf("parameter %s: %s has no parameters", name, s.Source)
	}
	names := make([]string, len(s.Params))
	for i, p := range s.Params {
		names[i] = p.Name
	}
	return paramErrorf("unknown parameter %s: %s has %s", name, s.Source, strings.Join(names, ", "))
}

// render fills the templates in. A plain folder is returned as it is.
func (s *Scenario) render(set map[string]string) (*folder, error) {
	values, err := s.values(set)
	if err != nil {
		return nil, err
	}
	out := &folder{files: s.folder.files, shared: maps.Clone(s.folder.shared), other: s.folder.other, dirs: s.folder.dirs}
	if len(s.added) > 0 && out.shared == nil {
		out.shared = make(map[string]string)
	}
	maps.Copy(out.shared, s.added)
	if len(s.Params) == 0 {
		return out, nil
	}
	out.files = make(map[string]string)
	for name, text := range s.folder.files {
		base, isTemplate := strings.CutSuffix(name, templateSuffix)
		switch {
		case name == paramsFile:
		case isTemplate:
			err = renderFile(out.files, base, text, values)
		default:
			err = put(out.files, name, text)
		}
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
	}
	return out, nil
}

var templateFuncs = template.FuncMap{
	"add": func(a, b int) int { return a + b },
	"sub": func(a, b int) int { return a - b },
	// seq is first, ..., last; nothing if last is smaller.
	"seq": func(first, last int) []int {
		var s []int
		for i := first; i <= last; i++ {
			s = append(s, i)
		}
		return s
	},
}

// renderFile renders one template into files: once, or for every "@NAME".
func renderFile(files map[string]string, name, text string, values map[string]any) error {
	tmpl, err := template.New(name).Option("missingkey=error").Funcs(templateFuncs).Parse(text)
	if err != nil {
		return err
	}
	for param, value := range values {
		last, isNumber := value.(int)
		if !isNumber || !strings.Contains(name, "@"+param+".") {
			continue
		}
		for i := 1; i <= last; i++ {
			data := maps.Clone(values)
			data["I"] = i
			if err := renderOne(files, strings.ReplaceAll(name, "@"+param+".", strconv.Itoa(i)+"."), tmpl, data); err != nil {
				return err
			}
		}
		return nil
	}
	return renderOne(files, name, tmpl, values)
}

func renderOne(files map[string]string, name string, tmpl *template.Template, data map[string]any) error {
	var b bytes.Buffer
	if err := tmpl.Execute(&b, data); err != nil {
		return err
	}
	return put(files, name, b.String())
}

// put adds a file, which must be new.
func put(files map[string]string, name, text string) error {
	if _, ok := files[name]; ok {
		return fmt.Errorf("%s is there twice", name)
	}
	files[name] = text
	return nil
}
