// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"slices"
	"strconv"

	"github.com/vnetradar/radar/pkg/packet"
)

// Together opens several recordings as one source, if that can have what is selected. Their packets are one answer, and their
// nodes stand side by side: names that domains share get the name of the domain, or, where these are the same, of the
// recording.
func Together(s *Selection, recordings ...*Recorded) (*Sources, []Note, error) {
	all := &Sources{scopes: packet.NewScopes()}
	var notes []Note
	labels := labelsOf(recordings)
	for i, r := range recordings {
		own := &Recorded{Path: r.Path, Recording: r.Again()}
		var nodes []string
		if own.Last.Domain != nil {
			for _, n := range namedNodes(own.Last.Domain) {
				nodes = append(nodes, n.name)
			}
		}
		own.in = all.scopes.Join(own.Scope, labels[i], nodes)
		own.Recording = own.In(own.in)
		all.list = append(all.list, own)
		notes = append(notes, own.damage()...)
	}
	if err := all.check(s); err != nil {
		return nil, nil, err
	}
	return all, notes, nil
}

// labelsOf are names of recordings that tell them apart.
func labelsOf(recordings []*Recorded) []string {
	names := [2][]string{} // of domains, of files
	for _, r := range recordings {
		of := r.Name()
		names[1] = append(names[1], of)
		if r.Last.Domain != nil {
			of = r.Last.Domain.Name
		}
		names[0] = append(names[0], of)
	}
	for _, list := range names {
		if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) == len(list) {
			return list
		}
	}
	for i := range names[1] {
		names[1][i] += "#" + strconv.Itoa(i+1)
	}
	return names[1]
}
