// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

// ErrHidden says that the kernel shows no addresses to this process.
var ErrHidden = errors.New("addresses are hidden: run as root with kernel.kptr_restrict below 2")

// functions are the kernel's symbols by address.
type functions struct {
	symbols []symbol // sorted, one for each address
}

type symbol struct {
	addr uint64
	name string // "" where something else than a function begins
}

// parseFunctions reads the form of /proc/kallsyms: address, type, name and, for
// modules and BPF programs, [module]. Lines that look different are passed over.
func parseFunctions(r io.Reader) (*functions, error) {
	var f functions
	hidden := true
	sc := bufio.NewScanner(r)
	for sc.Scan() && !kernel.IsProgramSymbol(sc.Bytes()) {
		s, ok := parseSymbol(sc.Bytes())
		if !ok {
			continue
		}
		hidden = hidden && s.addr == 0
		f.symbols = append(f.symbols, s)
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	if hidden {
		return nil, ErrHidden
	}
	// If an address has several names, take the first in the file: the order is the
	// kernel's own, and stable. A name is better than the begin of something else.
	slices.SortStableFunc(f.symbols, func(a, b symbol) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(b2i(a.name == ""), b2i(b.name == "")))
	})
	f.symbols = slices.CompactFunc(f.symbols, func(a, b symbol) bool { return a.addr == b.addr })
	return &f, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func parseSymbol(line []byte) (symbol, bool) {
	hex, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok || len(rest) < 3 || rest[1] != ' ' {
		return symbol{}, false
	}
	addr, err := strconv.ParseUint(string(hex), 16, 64)
	if err != nil {
		return symbol{}, false
	}
	s := symbol{addr: addr}
	if kind := rest[0]; kind == 't' || kind == 'T' || kind == 'w' || kind == 'W' {
		name, _, _ := bytes.Cut(rest[2:], []byte{'\t'})
		name, _, _ = bytes.Cut(name, []byte{'.'})
		s.name = string(name)
	}
	// What the linker puts at the end of a section is no function.
	if strings.HasPrefix(s.name, "_e") && (s.name == "_etext" || s.name == "_einittext") {
		s.name = ""
	}
	return s, true
}

// find returns the name of the function that addr lies in.
func (f *functions) find(addr uint64) string {
	i, found := slices.BinarySearchFunc(f.symbols, addr, func(s symbol, a uint64) int {
		return cmp.Compare(s.addr, a)
	})
	if !found {
		i--
	}
	if i < 0 || addr-f.symbols[i].addr > longestFunction {
		return ""
	}
	return f.symbols[i].name
}

// longestFunction is more than any has, in bytes. What is further behind a symbol is not its
// function: BPF programs lie among the modules, and are not read.
const longestFunction = 64 << 10
