// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count is a flag value of packets or entries: 1048576, 1M, 2^20.
type Count uint32

func (c *Count) String() string { return strconv.FormatUint(uint64(*c), 10) }

// Type names the value in help texts.
func (c *Count) Type() string { return "count" }

// Set parses the value.
func (c *Count) Set(s string) error {
	v, err := parseCount(s)
	if err != nil {
		return err
	}
	*c = Count(v)
	return nil
}

// parseCount reads a number, a number with K, M or G (powers of 1024), or a
// power: 1048576, 1M, 2^20.
func parseCount(s string) (uint32, error) {
	bad := fmt.Errorf("%q is no count: use a number such as 1048576, 1M or 2^20", s)
	if base, exp, ok := strings.Cut(s, "^"); ok {
		e, err := strconv.ParseUint(exp, 10, 6)
		if base != "2" || err != nil {
			return 0, bad
		}
		if e > 31 {
			return 0, fmt.Errorf("%q is too large", s)
		}
		return 1 << e, nil
	}
	digits := strings.TrimRight(s, "kKmMgG")
	factor := uint64(1)
	switch strings.ToUpper(s[len(digits):]) {
	case "":
	case "K":
		factor = 1 << 10
	case "M":
		factor = 1 << 20
	case "G":
		factor = 1 << 30
	default:
		return 0, bad
	}
	v, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0, bad
	}
	if v*factor > math.MaxUint32 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return uint32(v * factor), nil
}

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
