// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

var (
	fontFile = regexp.MustCompile(`(?s)^(\d+ 0 obj\n<</Length )\d+(\n/Filter /FlateDecode\n/Length1 )\d+(\n>>\nstream\n)`)
	fontName = regexp.MustCompile(`/(BaseFont|FontName) /`)
	xref     = regexp.MustCompile(`(?s)\nxref\n0 (\d+)\n(.*)trailer\n(.*)\nstartxref\n(\d+)\n%%EOF\n$`)
)

// errPDF says that a file is not as the library below writes it.
var errPDF = errors.New("the PDF is written in another way than is known")

// withSubsets writes the fonts of a PDF as subsets with some letters, and all offsets anew.
func withSubsets(file []byte, letters map[rune]bool) ([]byte, error) {
	end := xref.FindSubmatchIndex(file)
	if end == nil {
		return nil, errPDF
	}
	offsets, err := offsetsOf(file, end)
	if err != nil {
		return nil, err
	}
	ordered := slices.Sorted(slices.Values(offsets))
	moved := make(map[int]int)
	out := slices.Clone(file[:ordered[0]])
	for i, from := range ordered {
		to := end[0] + 1
		if i+1 < len(ordered) {
			to = ordered[i+1]
		}
		moved[from] = len(out)
		object, err := withSubset(file[from:to], letters)
		if err != nil {
			return nil, err
		}
		out = append(out, object...)
	}
	at := len(out)
	out = fmt.Appendf(out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, from := range offsets {
		out = fmt.Appendf(out, "%010d 00000 n \n", moved[from])
	}
	return fmt.Appendf(out, "trailer\n%s\nstartxref\n%d\n%%%%EOF\n", file[end[6]:end[7]], at), nil
}

// offsetsOf are those of a PDF's objects, from the first one on.
func offsetsOf(file []byte, end []int) (list []int, err error) {
	n, _ := strconv.Atoi(string(file[end[2]:end[3]]))
	lines := bytes.Split(file[end[4]:end[5]], []byte("\n"))
	if n < 2 || len(lines) < n {
		return nil, errPDF
	}
	for i, line := range lines[1:n] {
		if len(line) < 10 {
			return nil, errPDF
		}
		from, err := strconv.Atoi(string(line[:10]))
		if err != nil || from < 0 || from > end[0] || !bytes.HasPrefix(file[from:], fmt.Appendf(nil, "%d 0 obj\n", i+1)) {
			return nil, errPDF
		}
		list = append(list, from)
	}
	return list, nil
}

// withSubset is an object, whose font is a subset if it is one. Its name says so (ISO 32000-1, 9.6.4).
func withSubset(object []byte, letters map[rune]bool) ([]byte, error) {
	at := fontFile.FindSubmatchIndex(object)
	if at == nil {
		if bytes.Contains(object, []byte("\nstream\n")) {
			return object, nil
		}
		return fontName.ReplaceAll(object, []byte("/$1 /"+tagOf(letters)+"+")), nil
	}
	r, err := zlib.NewReader(bytes.NewReader(object[at[1]:]))
	if err != nil {
		return nil, errPDF
	}
	whole, err := io.ReadAll(r)
	if err != nil {
		return nil, errPDF
	}
	font, err := subset(whole, letters)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w, err := zlib.NewWriterLevel(&b, zlib.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(font); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	part := func(i int) []byte { return object[at[2*i]:at[2*i+1]] }
	return fmt.Appendf(nil, "%s%d%s%d%s%s\nendstream\nendobj\n", part(1), b.Len(), part(2), len(font), part(3), b.Bytes()), nil
}

// tagOf are six letters that stand for a subset.
func tagOf(letters map[rune]bool) string {
	h := fnv.New64a()
	for _, r := range slices.Sorted(maps.Keys(letters)) {
		fmt.Fprintf(h, "%d ", r)
	}
	tag, v := make([]byte, 6), h.Sum64()
	for i := range tag {
		tag[i], v = byte('A'+v%26), v/26
	}
	return string(tag)
}
