// SPDX-License-Identifier: Apache-2.0

package intwire

import "strconv"

// AppendJSON appends m as one JSON object, without a line's end. extra are items to
// put first.
func (m *Message) AppendJSON(dst []byte, extra ...Item) []byte {
	return appendItems(dst, '{', '}', append(extra, m.Tree()...))
}

func appendItems(dst []byte, begin, end byte, items []Item) []byte {
	dst = append(dst, begin)
	for i := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		item := &items[i]
		if begin == '{' {
			// Names and texts are plain ASCII of ours: Go quotes them as JSON does.
			dst = append(strconv.AppendQuote(dst, item.Name), ':')
		}
		switch item.Kind {
		case Number:
			dst = append(dst, item.Text...)
		case Text:
			dst = strconv.AppendQuote(dst, item.Text)
		case Object:
			dst = appendItems(dst, '{', '}', item.Sub)
		case List:
			dst = appendItems(dst, '[', ']', item.Sub)
		}
	}
	return append(dst, end)
}
