// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Schema is the JSON schema (2020-12) of a file of assertions, made of the types that Read reads.
func Schema() []byte {
	schema := object(reflect.TypeFor[File]())
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Assertions of radar: what packets must meet"
	schema["required"] = []string{"assertions"}
	b, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // it is the same each time
	}
	return append(b, '\n')
}

func object(t reflect.Type) jsonValue {
	properties := make(jsonValue)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		of := property(name, f.Type)
		of["description"] = f.Tag.Get("about")
		properties[name] = of
	}
	schema := jsonValue{"type": "object", "properties": properties, "additionalProperties": false}
	if t == reflect.TypeFor[Assertion]() {
		var one []jsonValue
		for _, name := range checkNames() {
			one = append(one, jsonValue{"required": []string{name}})
		}
		schema["required"], schema["oneOf"] = []string{"name"}, one
	}
	return schema
}

func property(name string, t reflect.Type) jsonValue {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if v, is := reflect.New(t).Interface().(value); is {
		return v.schema()
	}
	switch t.Kind() {
	case reflect.Struct:
		return object(t)
	case reflect.Map:
		return jsonValue{"type": "object", "additionalProperties": property(name, t.Elem())}
	case reflect.Slice:
		item := property(name, t.Elem())
		if name == "assertions" {
			return jsonValue{"type": "array", "minItems": 1, "maxItems": MaxAssertions, "items": item}
		}
		if name == "sport" || name == "dport" || name == "proto" {
			item = jsonValue{"type": []any{"string", "integer"}}
		}
		list := jsonValue{"type": "array", "items": item}
		if name == "path" || name == "crosses" || name == "never_crosses" || name == "cause" || name == "never_cause" {
			list["minItems"] = 1
		}
		return jsonValue{"anyOf": []any{item, list}}
	}
	return jsonValue{"type": "string"}
}
