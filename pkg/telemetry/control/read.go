// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/yamltext"
)

// Bounds of what users write.
const (
	MaxBytes   = 1 << 20 // of a file
	MaxIntents = 1024
	maxValues  = 64   // of a list in an intent
	maxText    = 4096 // bytes of an expression
	maxDepth   = 16
	mostErrors = 64 // that are reported
)

// FieldError says what is wrong with a field. It is fault.Usage.
type FieldError struct {
	Field string // such as intents[2].slice.dport; "": the text as a whole
	Text  string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Text
	}
	return e.Field + ": " + e.Text
}

// Is makes it fault.Usage.
func (e *FieldError) Is(target error) bool { return target == fault.Usage }

// FieldErrors are those in an error, each with its field.
func FieldErrors(err error) (list []*FieldError) {
	if one, ok := err.(*FieldError); ok {
		return []*FieldError{one}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			list = append(list, FieldErrors(inner)...)
		}
	case interface{ Unwrap() error }:
		return FieldErrors(e.Unwrap())
	}
	return list
}

func fieldErrorf(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// join is the path of a field in another one.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// intentForm is an intent as users write it.
type intentForm struct {
	Intent
	// Lifetime is how long the intent lives, in place of expires: 30s, 15m, 1h30m.
	Lifetime string `json:"lifetime,omitempty"`
}

// ReadIntents reads a list of intents, or an object with one as "intents", in YAML or JSON.
func ReadIntents(b []byte, now time.Time) ([]Intent, error) {
	value, err := parse(b, MaxIntents)
	if err != nil {
		return nil, err
	}
	if m, ok := value.(map[string]any); ok {
		for name := range m {
			if name != "intents" {
				return nil, fieldErrorf(name, "there is no such field here: a file of intents has the field intents, a list")
			}
		}
		value = m["intents"]
	}
	forms := []intentForm{}
	if err := decode("intents", value, reflect.ValueOf(&forms).Elem(), 0); err != nil {
		return nil, err
	}
	list := make([]Intent, len(forms))
	var errs []error
	for i := range forms {
		list[i], err = forms[i].intent(at("intents", i), now)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := CheckIntents(list, now); err != nil {
		return nil, err
	}
	return list, nil
}

// ReadIntent reads one intent.
func ReadIntent(b []byte, now time.Time) (Intent, error) {
	var form intentForm
	if err := read(b, &form); err != nil {
		return Intent{}, err
	}
	i, err := form.intent("", now)
	if err == nil {
		err = i.Check("", now)
	}
	return i, err
}

// ReadConfig reads a Config.
func ReadConfig(b []byte) (c Config, err error) {
	if err = read(b, &c); err == nil {
		err = c.Check()
	}
	return c, err
}

// PatchConfig changes those fields of a config that b has (RFC 7396): null makes one what it is by default, and of a
// node in node_ids takes its id away. Whoever had an id that another node gets by that gets another one.
func PatchConfig(b []byte, c Config) (Config, error) {
	value, err := parse(b, maxLinks)
	if err != nil {
		return c, err
	}
	ids := maps.Clone(c.NodeIDs)
	if ids == nil {
		ids = make(map[string]uint32)
	}
	c.NodeIDs = nil
	fields, isObject := value.(map[string]any)
	to := reflect.ValueOf(&c).Elem()
	if isObject {
		if given, has := fields["node_ids"]; has && given == nil {
			clear(ids)
		}
		if named, ok := fields["node_ids"].(map[string]any); ok {
			for name, id := range named {
				if id == nil {
					delete(ids, name)
					delete(named, name)
				}
			}
		}
		for name, field := range fieldsOf(to) {
			if given, has := fields[name]; has && given == nil {
				field.SetZero()
				delete(fields, name)
			}
		}
	}
	if err := decode("", value, to, 0); err != nil {
		return c, err
	}
	for name, id := range c.NodeIDs {
		maps.DeleteFunc(ids, func(other string, has uint32) bool { return other != name && has == id && c.NodeIDs[other] == 0 })
		ids[name] = id
	}
	c.NodeIDs = ids
	return c, c.Check()
}

// ReadTopology reads a Topology.
func ReadTopology(b []byte) (t Topology, err error) {
	if err = read(b, &t); err == nil {
		err = t.Check()
	}
	return t, err
}

func read(b []byte, into any) error {
	value, err := parse(b, maxLinks)
	if err != nil {
		return err
	}
	return decode("", value, reflect.ValueOf(into).Elem(), 0)
}

// intent is what the form says.
func (f *intentForm) intent(path string, now time.Time) (Intent, error) {
	if f.Lifetime == "" {
		return f.Intent, nil
	}
	if !f.Expires.IsZero() {
		return Intent{}, fieldErrorf(join(path, "lifetime"), "expires says it already: use one of them")
	}
	d, err := time.ParseDuration(f.Lifetime)
	if err != nil || d <= 0 {
		return Intent{}, fieldErrorf(join(path, "lifetime"), "%q: use a time such as 30s, 15m or 1h30m", f.Lifetime)
	}
	f.Expires = now.Add(d).UTC().Truncate(time.Second)
	if d < time.Second {
		f.Expires = now.Add(time.Second).UTC()
	}
	return f.Intent, nil
}

// parse reads one document of YAML or JSON, whose lists have so many entries at most.
func parse(b []byte, most int) (value any, err error) {
	if len(b) > MaxBytes {
		return nil, fieldErrorf("", "%d bytes: use %d at most", len(b), MaxBytes)
	}
	tokens := lexer.Tokenize(string(b))
	if at, why := yamltext.Refused(tokens); at != nil {
		return nil, fieldErrorf("", "line %d: %s", at.Position.Line, why)
	}
	if at := yamltext.LongList(tokens, most); at != nil {
		return nil, fieldErrorf("", "line %d: a list or an object has more than %d entries", at.Position.Line, most)
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, fieldErrorf("", "%s", firstLine(err))
	}
	if len(file.Docs) > 1 {
		return nil, fieldErrorf("", "%d documents: use one", len(file.Docs))
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	if err := yaml.NodeToValue(file.Docs[0].Body, &value); err != nil {
		return nil, fieldErrorf("", "%s", firstLine(err))
	}
	return value, nil
}

// firstLine is what goccy says, without the lines of the source that it draws.
func firstLine(err error) string {
	line, _, text := yamltext.Place(err)
	if line == 0 {
		return text
	}
	return fmt.Sprintf("line %d: %s", line, text)
}

// decode writes a value of YAML into a field, strictly: no field that is not there, no other type.
func decode(path string, value any, to reflect.Value, depth int) error {
	if depth > maxDepth {
		return fieldErrorf(path, "it is too deep")
	}
	if to.Kind() == reflect.Interface {
		to.Set(reflect.ValueOf(&value).Elem())
		return nil
	}
	if u, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok {
		text, ok := value.(string)
		if !ok || u.UnmarshalText([]byte(text)) != nil {
			return fieldErrorf(path, "%v: use a time such as 2030-01-31T12:00:00Z", shown(value))
		}
		return nil
	}
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return decode(path, value, to.Elem(), depth+1)
	case reflect.Struct:
		return decodeStruct(path, value, to, depth)
	case reflect.Slice:
		return decodeList(path, value, to, depth)
	case reflect.Map:
		return decodeMap(path, value, to, depth)
	case reflect.String:
		return decodeText(path, value, to)
	case reflect.Bool:
		b, ok := value.(bool)
		if !ok {
			return fieldErrorf(path, "%v: use true or false", shown(value))
		}
		to.SetBool(b)
		return nil
	}
	return decodeNumber(path, value, to)
}

// shown is a value in an error.
func shown(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return strconv.Quote(v[:min(len(v), 64)])
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return fmt.Sprint(value)
}

func decodeStruct(path string, value any, to reflect.Value, depth int) error {
	m, ok := value.(map[string]any)
	if !ok {
		return fieldErrorf(path, "%v: use an object, with fields", shown(value))
	}
	fields := fieldsOf(to)
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		if len(errs) >= mostErrors {
			break
		}
		f, ok := fields[name]
		if !ok {
			var all []string
			for known := range fields {
				all = append(all, known)
			}
			slices.Sort(all)
			errs = append(errs, fieldErrorf(join(path, name), "there is no such field: use %s", strings.Join(all, ", ")))
			continue
		}
		if m[name] == nil {
			continue // as if it were not there
		}
		if err := decode(join(path, name), m[name], f, depth+1); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// fieldsOf are the fields of a struct, by their names in JSON, with those of structs that are part of it.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := make(map[string]reflect.Value)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			for inner, field := range fieldsOf(v.Field(i)) {
				fields[inner] = field
			}
		} else if name != "-" {
			fields[name] = v.Field(i)
		}
	}
	return fields
}

// decodeList takes a single value for a list of one.
func decodeList(path string, value any, to reflect.Value, depth int) error {
	list, ok := value.([]any)
	if !ok {
		if to.Type().Elem().Kind() != reflect.String {
			return fieldErrorf(path, "%v: use a list", shown(value))
		}
		one := reflect.New(to.Type().Elem()).Elem()
		if err := decode(path, value, one, depth+1); err != nil {
			return err
		}
		to.Set(reflect.Append(to, one))
		return nil
	}
	all := reflect.MakeSlice(to.Type(), len(list), len(list))
	var errs []error
	for i := range list {
		if err := decode(at(path, i), list[i], all.Index(i), depth+1); err != nil {
			errs = append(errs, err)
		}
		if len(errs) >= mostErrors {
			break
		}
	}
	to.Set(all)
	return errors.Join(errs...)
}

func decodeMap(path string, value any, to reflect.Value, depth int) error {
	m, ok := value.(map[string]any)
	if !ok {
		return fieldErrorf(path, "%v: use an object, with a field for each", shown(value))
	}
	to.Set(reflect.MakeMap(to.Type()))
	for name, v := range m {
		one := reflect.New(to.Type().Elem()).Elem()
		if err := decode(join(path, name), v, one, depth+1); err != nil {
			return err
		}
		to.SetMapIndex(reflect.ValueOf(name).Convert(to.Type().Key()), one)
	}
	return nil
}

// decodeText takes numbers, too: YAML reads ports and versions as such.
func decodeText(path string, value any, to reflect.Value) error {
	switch v := value.(type) {
	case string:
		to.SetString(v)
	case uint64, int64:
		to.SetString(fmt.Sprint(v))
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<20 {
			to.SetString(strconv.FormatFloat(v, 'f', 1, 64)) // 2.0 is a version
			return nil
		}
		to.SetString(strconv.FormatFloat(v, 'f', -1, 64))
	default:
		return fieldErrorf(path, "%v: use a text", shown(value))
	}
	return nil
}

func decodeNumber(path string, value any, to reflect.Value) error {
	text, isText := value.(string)
	var wide int64
	switch v := value.(type) {
	case uint64:
		if v > math.MaxInt64 {
			return fieldErrorf(path, "%v: the number is too great", value)
		}
		wide = int64(v)
	case int64:
		wide = v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return fieldErrorf(path, "%q: use a number", text)
		}
		wide = n
	default:
		return fieldErrorf(path, "%v: use a whole number", shown(value))
	}
	if isText {
		return fieldErrorf(path, "%q: use a number, without quotes", text)
	}
	if to.CanUint() {
		if wide < 0 || to.OverflowUint(uint64(wide)) {
			return fieldErrorf(path, "%d: use 0 to %d", wide, uint64(1)<<to.Type().Bits()-1)
		}
		to.SetUint(uint64(wide))
		return nil
	}
	if !to.CanInt() || to.OverflowInt(wide) {
		return fieldErrorf(path, "%d: the number is too great", wide)
	}
	to.SetInt(wide)
	return nil
}
