// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"cmp"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
)

// numbered gives wanted entries of tables with priorities those that the switch has for the same keys, where their order
// allows it: an entry that comes or goes changes no other.
func (c *conn) numbered(wanted, held map[string]*item) map[string]*item {
	all := make(map[string]*item)
	lists := make(map[uint32][]*item)
	for key, it := range wanted {
		if t := it.entity.GetTableEntry(); t.GetPriority() > 0 {
			lists[t.GetTableId()] = append(lists[t.GetTableId()], it)
		} else {
			all[key] = it
		}
	}
	for id, list := range lists {
		slices.SortFunc(list, func(x, y *item) int {
			return cmp.Compare(y.entity.GetTableEntry().GetPriority(), x.entity.GetTableEntry().GetPriority())
		})
		seen := make(map[string]bool)
		list = slices.DeleteFunc(list, func(it *item) bool { // of two with the same keys the first counts
			keys := matchKey(it.entity)
			defer func() { seen[keys] = true }()
			return seen[keys]
		})
		has := make(map[string]int32)
		for _, h := range held {
			if t := h.entity.GetTableEntry(); t.GetTableId() == id {
				has[matchKey(h.entity)] = max(has[matchKey(h.entity)], t.GetPriority())
			}
		}
		before := make([]int32, len(list))
		for i, it := range list {
			before[i] = has[matchKey(it.entity)]
		}
		for i, n := range priorities(before) {
			it := &item{entity: proto.Clone(list[i].entity).(*p4.Entity), table: list[i].table}
			it.entity.GetTableEntry().Priority = n
			it.key = keyOf(it.entity)
			all[it.key] = it
		}
	}
	return all
}

// matchKey is what an entry matches.
func matchKey(e *p4.Entity) string {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(&p4.TableEntry{Match: e.GetTableEntry().GetMatch()})
	return string(b)
}

// spread is how far apart entries are numbered, so that others find room between.
const spread = 1000

// priorities are those of entries in their order, the greatest first. before has those that the switch holds, 0 where
// it holds none: as many as are in order stay what they are.
func priorities(before []int32) []int32 {
	kept := longestFalling(before)
	all := make([]int32, len(before))
	upper, from := int32(topPriority), 0
	for i := 0; i <= len(before); i++ {
		lower := int32(0)
		if i < len(before) {
			if !kept[i] {
				continue
			}
			lower = before[i]
			all[i] = lower
		}
		n := int32(i - from)
		if upper-lower <= n { // there is no room between: all are numbered anew
			return priorities(make([]int32, len(before)))
		}
		step := min((upper-lower)/(n+1), spread)
		for k := from; k < i; k++ {
			all[k] = upper - step*int32(k-from+1)
		}
		upper, from = lower, i+1
	}
	return all
}

// longestFalling chooses as many of the numbers as possible so that each is less than the one before. Zeros
// are none.
func longestFalling(list []int32) []bool {
	var ends []int // of the best sequences of each length: the index of the last number
	previous := make([]int, len(list))
	for i, n := range list {
		previous[i] = -1
		if n <= 0 || n >= topPriority {
			continue
		}
		at, _ := slices.BinarySearchFunc(ends, n, func(end int, n int32) int { return cmp.Compare(n, list[end]) })
		if at > 0 {
			previous[i] = ends[at-1]
		}
		if at == len(ends) {
			ends = append(ends, i)
		} else {
			ends[at] = i
		}
	}
	chosen := make([]bool, len(list))
	if len(ends) > 0 {
		for i := ends[len(ends)-1]; i >= 0; i = previous[i] {
			chosen[i] = true
		}
	}
	return chosen
}
