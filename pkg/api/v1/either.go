// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
)

// MarshalJSON implements json.Marshaler.
func (r LossRow) MarshalJSON() ([]byte, error) { return plain(r.any) }

// MarshalJSON implements json.Marshaler.
func (r LatencyRow) MarshalJSON() ([]byte, error) { return plain(r.any) }

// MarshalJSON implements json.Marshaler.
func (r ThroughputRow) MarshalJSON() ([]byte, error) { return plain(r.any) }

// Schema implements huma.SchemaProvider.
func (LossRow) Schema(r huma.Registry) *huma.Schema {
	return anyOf(r, typeOf[PlaceLoss](), typeOf[FlowLoss](), typeOf[SecondLoss]())
}

// Schema implements huma.SchemaProvider.
func (LatencyRow) Schema(r huma.Registry) *huma.Schema {
	return anyOf(r, typeOf[aggregate.LatencyRow](), typeOf[answer.LatencySecond]())
}

// Schema implements huma.SchemaProvider.
func (ThroughputRow) Schema(r huma.Registry) *huma.Schema {
	return anyOf(r, typeOf[aggregate.ThroughputRow](), typeOf[answer.ThroughputSecond]())
}

// anyOf is the schema of a row of one of these types.
func anyOf(r huma.Registry, types ...reflect.Type) *huma.Schema {
	s := &huma.Schema{}
	for _, t := range types {
		s.AnyOf = append(s.AnyOf, r.Schema(t, true, t.Name()))
	}
	return s
}
