// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/words"
)

// maxHex bounds what is read from standard input: no packet is longer.
const maxHex = 1 << 20

// decodeHex decodes the one packet that the arguments, or standard input, spell.
func decodeHex(k *kit.Kit, f *decodeOptions, args []string) error {
	text, where := strings.Join(args, " "), "the arguments"
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(k.Stdin, maxHex+1))
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		if len(b) > maxHex {
			return fmt.Errorf("standard input is longer than %d bytes: no packet is (capture files: -r FILE)", maxHex)
		}
		text, where = string(b), "standard input"
	}
	data, err := parseHex(text)
	if info, noFile := os.Stat(text); err != nil && noFile == nil && where == "the arguments" {
		if info.IsDir() {
			return fmt.Errorf("%s is a directory: give hex digits, or a capture file in it: -r FILE", text)
		}
		return fmt.Errorf("%s is a file: give hex digits, or -r %s", text, text)
	}
	if err != nil {
		return fmt.Errorf("read hex digits from %s: %w", where, err)
	}
	d, m := intwire.Decoder{Profile: f.profile.p}, &intwire.Message{}
	d.Decode(m, f.startsAt.start(), data)
	if m.Profile == nil && f.startsAt.start() == intwire.StartEthernet && isIP(data) {
		fmt.Fprintln(k.Stderr, "radar: these bytes look like an IP header, as tcpdump -x prints it: --starts-at ip")
	}
	if k.Output == kit.FormatJSON {
		return printJSON(k, m)
	}
	return printMessage(k, m)
}

// isIP reports whether bytes can be a packet from its IP header on: the length that it says is theirs, or more.
func isIP(b []byte) bool {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		return b[0]&15 >= 5 && int(binary.BigEndian.Uint16(b[2:])) >= len(b)
	case len(b) >= 40 && b[0]>>4 == 6:
		return 40+int(binary.BigEndian.Uint16(b[4:])) >= len(b)
	}
	return false
}

// parseHex reads hex digits with white space, colons, commas or 0x between them, or a dump with offsets.
func parseHex(text string) ([]byte, error) {
	text, err := undump(text)
	if err != nil {
		return nil, err
	}
	digits := make([]byte, 0, len(text))
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\v\f:,", r) }) {
		word = strings.TrimPrefix(strings.TrimPrefix(word, "0x"), "0X")
		for i := range len(word) {
			if !strings.ContainsRune("0123456789abcdefABCDEF", rune(word[i])) {
				return nil, fmt.Errorf("%q is no hex digit (in %.20q)", word[i], word)
			}
		}
		digits = append(digits, word...)
	}
	switch {
	case len(digits) == 0:
		return nil, errors.New("there are none")
	case len(digits)%2 != 0:
		return nil, fmt.Errorf("%d of them are no whole bytes", len(digits))
	}
	return hex.AppendDecode(nil, digits)
}

// decodeFile decodes every packet of a capture.
func decodeFile(k *kit.Kit, f *decodeOptions) error {
	capture, closeFile, err := k.OpenCapture(f.file)
	if err != nil {
		return err
	}
	defer closeFile()
	d, m := intwire.Decoder{Profile: f.profile.p}, &intwire.Message{}
	packets, found := 0, 0
	for {
		data, start, info, err := capture.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read capture %s: %w", f.file, err)
		}
		packets++
		d.Decode(m, start, data)
		if m.Profile != nil {
			found++
		}
		if err := printFrame(k, m, packets, info.Timestamp); err != nil {
			return err
		}
	}
	if k.Output == kit.FormatJSON {
		return nil
	}
	_, err = fmt.Fprintf(k.Out, "%s, %d with INT or a report\n", words.Plural(packets, "packet"), found)
	return err
}

// printFrame prints one packet of a capture. In tables those without INT are only counted,
// unless something is odd about them.
func printFrame(k *kit.Kit, m *intwire.Message, n int, at time.Time) error {
	when := at.UTC().Format("2006-01-02T15:04:05.000000000Z")
	if k.Output == kit.FormatJSON {
		return printJSON(k, m,
			intwire.Item{Name: "frame", Text: fmt.Sprint(n)},
			intwire.Item{Name: "time", Kind: intwire.Text, Text: when})
	}
	if m.Profile == nil && !m.Has(intwire.OrdinaryClass) && !m.Has(intwire.LooksLikeINT) && !m.Has(intwire.MarkedNotINT) &&
		!m.Has(intwire.NotTheProfile) && !m.Has(intwire.PortWithoutINT) {
		return nil
	}
	if _, err := fmt.Fprintf(k.Out, "%-10s %d, %s\n", "FRAME", n, at.In(k.Location).Format("2006-01-02 15:04:05.000000000")); err != nil {
		return err
	}
	if err := printMessage(k, m); err != nil {
		return err
	}
	_, err := fmt.Fprintln(k.Out)
	return err
}
