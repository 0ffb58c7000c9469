// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/api/live"
	"github.com/vnetradar/radar/pkg/record"
)

// jsonFormat writes JSON as the command line does: "h1 > r1" stays as it is.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	},
	Unmarshal: json.Unmarshal,
}

// plain is a value as JSON, for a MarshalJSON: json.Marshal would write "h1 \u003e r1".
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	err := jsonFormat.Marshal(&b, v)
	return b.Bytes(), err
}

// Record is a packet's, in the JSON form of docs/data-model.md, and in words why it was lost.
type Record struct{ *record.Record }

// MarshalJSON implements json.Marshaler.
func (r Record) MarshalJSON() ([]byte, error) { return live.EncodeRecord(r.Record), nil }

// Schema implements huma.SchemaProvider.
func (Record) Schema(r huma.Registry) *huma.Schema {
	s := r.Schema(typeOf[record.Record](), true, "Record")
	r.SchemaFromRef(s.Ref).Properties["why"] = &huma.Schema{Type: huma.TypeString, Description: "in words why it was lost, as far as there are any"}
	return s
}

// Note is what rows do not say: what an answer lacks, why it is empty, what to look at next.
type Note struct {
	Kind string `json:"kind" doc:"of what, for programs" example:"nothing_lost"`
	Text string `json:"text" doc:"in words"`
}

// Rows are the answer to a question.
type Rows[T any] struct {
	Rows  []T    `json:"rows" nullable:"false" doc:"as the command line prints them with -o json"`
	Notes []Note `json:"notes" nullable:"false"`
}

// Output is an answer with a body.
type Output[T any] struct {
	Cache string `header:"Cache-Control"`
	Body  T
}

func output[T any](body T) *Output[T] { return &Output[T]{"no-store", body} }

// nameOf names schemas after their types. What belongs to the management of INT says so: domains have topologies and
// nodes, too.
func nameOf(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if strings.HasSuffix(t.PkgPath(), "/telemetry/control") && !strings.HasPrefix(name, "Int") {
		return "INT" + name
	}
	return name
}
