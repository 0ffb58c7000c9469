// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// said is what a schema says of fields beyond their types.
var said = map[string]map[string]any{
	"name":     {"description": "Identifies the intent.", "pattern": nameForm.String()},
	"slice":    {"description": "Of which packets; left out: all TCP and UDP."},
	"states":   {"description": "Network states to observe, by the names of the INT specification.", "items": map[string]any{"enum": anyOf(node.InstructionNames())}},
	"mode":     {"description": "How devices report what they know.", "enum": anyOf(modes), "default": MD},
	"sample":   {"description": "One packet in so many.", "maximum": maxSample},
	"hops":     {"description": "Nodes that may add metadata, the source among them (md, md1.0).", "default": DefaultHops},
	"priority": {"description": "The greatest comes first where slices overlap; of equal ones the older."},
	"expires":  {"description": "When the intent ends.", "format": "date-time"},
	"lifetime": {"description": "How long it lives, in place of expires: 30s, 15m, 1h30m."},
	"fallback": {"description": "What becomes of it where a device cannot do it exactly.", "enum": anyOf(fallbacks), "default": Refuse},
	"devices":  {"description": "Give INT at these devices only."},
	"created":  {"description": "When it was added: the service sets it.", "format": "date-time"},
	"src":      {"description": "Addresses or prefixes."},
	"dst":      {"description": "Addresses or prefixes."},
	"proto":    {"description": "Left out: both.", "enum": []any{"tcp", "udp"}},
	"sport":    {"description": "Ports, or ranges such as 1000-2000."},
	"dport":    {"description": "Ports, or ranges such as 1000-2000."},
	"dscp":     {"description": "0 to 63.", "maximum": 63},
	"expr":     {"description": "A filter expression in tcpdump's language, in place of all others.", "maxLength": maxText},
}

func anyOf[T ~string](list []T) (values []any) {
	for _, v := range list {
		values = append(values, v)
	}
	return values
}

// Schema is the JSON schema (2020-12) of a file of intents, made of the types that ReadIntents reads.
func Schema() []byte {
	intent := object(reflect.TypeFor[intentForm]())
	intent["required"] = []string{"name"}
	list := map[string]any{"type": "array", "maxItems": MaxIntents, "items": map[string]any{"$ref": "#/$defs/intent"}}
	schema := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Intents of radar: what INT devices are to observe",
		"$defs":   map[string]any{"intent": intent},
		"oneOf": []any{list, map[string]any{
			"type": "object", "properties": map[string]any{"intents": list}, "required": []string{"intents"}, "additionalProperties": false,
		}},
	}
	b, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // it is the same each time
	}
	return append(b, '\n')
}

// object is the schema of a struct.
func object(t reflect.Type) map[string]any {
	properties := make(map[string]any)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			for inner, schema := range object(f.Type)["properties"].(map[string]any) {
				properties[inner] = schema
			}
			continue
		}
		properties[name] = property(name, f.Type)
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

func property(name string, t reflect.Type) map[string]any {
	schema := map[string]any{}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time](), t.Kind() == reflect.String:
		schema["type"] = "string"
	case t.Kind() == reflect.Struct:
		schema = object(t)
	case t.Kind() == reflect.Slice:
		return textList(name)
	default:
		schema["type"] = "integer"
		if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
			schema["minimum"], schema["maximum"] = 0, uint64(1)<<t.Bits()-1
		}
	}
	for key, value := range said[name] {
		schema[key] = value
	}
	return schema
}

// textList is a list of texts, or one of them. Ports may be numbers.
func textList(name string) map[string]any {
	item := map[string]any{"type": "string"}
	if name == "sport" || name == "dport" {
		item = map[string]any{"type": []string{"string", "integer"}}
	}
	if more, is := said[name]["items"].(map[string]any); is {
		for key, value := range more {
			item[key] = value
		}
	}
	most := maxValues
	if name == "states" || name == "devices" {
		most = maxValues * 16
	}
	return map[string]any{"description": said[name]["description"], "anyOf": []any{
		item, map[string]any{"type": "array", "items": item, "maxItems": most},
	}}
}
