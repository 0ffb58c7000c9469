// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/yamltext"
)

// PlaceError says what is wrong at a place of a file. It is fault.Usage.
type PlaceError struct {
	File         string
	Line, Column int    // from 1; 0: the file as a whole
	Field        string // such as assertions[2].latency.p99; "": none
	Text         string
}

func (e *PlaceError) Error() string {
	text := e.Text
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Line == 0 {
		return e.File + ": " + text
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, text)
}

// Is makes it fault.Usage.
func (e *PlaceError) Is(target error) bool { return target == fault.Usage }

// Read reads a file of assertions, in YAML or JSON. Its error names every place where something is wrong.
func Read(name string, b []byte) (*File, error) {
	r := &reader{file: name}
	body, err := r.parse(b)
	if err != nil {
		return nil, err
	}
	f := &File{}
	if body == nil {
		return nil, &PlaceError{File: name, Text: "there is nothing in it: write assertions, a list"}
	}
	r.decode("", body, reflect.ValueOf(f).Elem())
	if len(r.errs) == 0 {
		r.check(f)
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return f, nil
}

// reader reads one file.
type reader struct {
	file   string
	places map[string]*token.Token // by field
	errs   []error
}

func (r *reader) errorf(at *token.Token, field, format string, args ...any) {
	e := &PlaceError{File: r.file, Field: field, Text: fmt.Sprintf(format, args...)}
	if at != nil {
		e.Line, e.Column = at.Position.Line, at.Position.Column
	}
	r.errs = append(r.errs, e)
}

func (r *reader) parse(b []byte) (ast.Node, error) {
	if len(b) > MaxBytes {
		return nil, &PlaceError{File: r.file, Text: fmt.Sprintf("%d bytes: use %d at most", len(b), MaxBytes)}
	}
	r.places = make(map[string]*token.Token)
	tokens := lexer.Tokenize(string(b))
	if at, why := yamltext.Refused(tokens); at != nil {
		r.errorf(at, "", "%s", why)
		return nil, r.errs[0]
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, r.syntax(err)
	}
	switch {
	case len(file.Docs) > 1:
		return nil, &PlaceError{File: r.file, Text: fmt.Sprintf("%d documents: use one", len(file.Docs))}
	case len(file.Docs) == 0:
		return nil, nil
	}
	return file.Docs[0].Body, nil
}

// syntax is what goccy says, "[LINE:COLUMN] TEXT", without the lines of the source that it draws.
func (r *reader) syntax(err error) error {
	e := &PlaceError{File: r.file}
	e.Line, e.Column, e.Text = yamltext.Place(err)
	return e
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// decode writes a node into a field, strictly: no field that is not there, no other type.
func (r *reader) decode(path string, n ast.Node, to reflect.Value) {
	r.places[path] = n.GetToken()
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		r.decode(path, n, to.Elem())
		return
	}
	if v, is := to.Addr().Interface().(value); is {
		text, ok := scalar(n)
		if !ok || v.UnmarshalText([]byte(text)) != nil {
			r.errorf(n.GetToken(), path, "%s: use %s", shown(n), v.allowed())
		}
		return
	}
	switch to.Kind() {
	case reflect.Struct:
		r.decodeStruct(path, n, to)
	case reflect.Slice:
		r.decodeList(path, n, to)
	case reflect.Map:
		r.decodeMap(path, n, to)
	default:
		text, ok := scalar(n)
		if !ok {
			r.errorf(n.GetToken(), path, "%s: use a text", shown(n))
		}
		to.SetString(text)
	}
}

// scalar is the text of a scalar, as it is written.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// shown is a node in an error.
func shown(n ast.Node) string {
	if text, ok := scalar(n); ok {
		return strconv.Quote(text[:min(len(text), 64)])
	}
	switch n.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	}
	return "an object"
}

// entries are the fields of an object; false: it is none.
func entries(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func (r *reader) decodeStruct(path string, n ast.Node, to reflect.Value) {
	list, ok := entries(n)
	if !ok {
		r.errorf(n.GetToken(), path, "%s: use an object with the fields %s", shown(n), strings.Join(fieldNames(to.Type()), ", "))
		return
	}
	for _, e := range list {
		key := e.Key.GetToken()
		i := slices.Index(fieldNames(to.Type()), key.Value)
		if i < 0 {
			r.errorf(key, join(path, key.Value), "there is no such field: use %s", strings.Join(fieldNames(to.Type()), ", "))
			continue
		}
		if e.Value.Type() == ast.NullType {
			r.errorf(key, join(path, key.Value), "there is nothing behind it")
			continue
		}
		r.decode(join(path, key.Value), e.Value, to.Field(i))
		r.places[join(path, key.Value)] = key
	}
	if a, is := to.Addr().Interface().(*Assertion); is && len(list) > 0 {
		at := list[0].Key.GetToken().Position
		a.Line, a.Column = at.Line, at.Column
	}
}

// fieldNames are the names of a struct's fields in files, in their order.
func fieldNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// decodeList takes a single text for a list of one.
func (r *reader) decodeList(path string, n ast.Node, to reflect.Value) {
	nodes := []ast.Node{n}
	if s, is := n.(*ast.SequenceNode); is {
		nodes = s.Values
	} else if to.Type().Elem().Kind() != reflect.String {
		r.errorf(n.GetToken(), path, "%s: use a list", shown(n))
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(nodes), len(nodes)))
	for i, one := range nodes {
		r.decode(fmt.Sprintf("%s[%d]", path, i), one, to.Index(i))
	}
}

func (r *reader) decodeMap(path string, n ast.Node, to reflect.Value) {
	list, ok := entries(n)
	if !ok {
		r.errorf(n.GetToken(), path, "%s: use an object with a field for each", shown(n))
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for _, e := range list {
		key := e.Key.GetToken()
		one := reflect.New(to.Type().Elem()).Elem()
		r.decode(join(path, key.Value), e.Value, one)
		to.SetMapIndex(reflect.ValueOf(key.Value), one)
	}
}
