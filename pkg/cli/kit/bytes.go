// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a flag value of a size on a disk: 500000000, 64M, 100G (powers of 1024).
type Bytes int64

func (b *Bytes) String() string {
	for i, unit := range []string{"T", "G", "M", "K"} {
		if size := Bytes(1) << (10 * (4 - i)); *b >= size && *b%size == 0 {
			return strconv.FormatInt(int64(*b/size), 10) + unit
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

// Type names the value in help texts.
func (b *Bytes) Type() string { return "bytes" }

// Set parses the value.
func (b *Bytes) Set(s string) error {
	number, shift := s, 0
	if at := strings.IndexByte("KMGT", lastByte(s)); at >= 0 {
		number, shift = s[:len(s)-1], 10*(at+1)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is no size: use a number of bytes such as 500000000, 64M or 100G", s)
	}
	*b = Bytes(n << shift)
	return nil
}

// lastByte is the last one, in upper case; 0 if there is none.
func lastByte(s string) byte {
	if s == "" {
		return 0
	}
	return strings.ToUpper(s[len(s)-1:])[0]
}
