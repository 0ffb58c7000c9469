// SPDX-License-Identifier: Apache-2.0

package intwire

// Place is where a field lies in a hop's block, or in a report's metadata. At offset Off is a
// number of Bytes bytes, 4 or 8, in network byte order. The field is Bits bits of it, from bit
// Shift on, where 0 is the lowest.
type Place struct {
	Field       Field
	Off, Bytes  int
	Shift, Bits uint8
}

// Places returns the fields that a bitmap asks for, in the order on the wire. size is how many
// bytes the block has: the checksum complement is at its end. Words of reserved bits have no
// place.
func Places(f Format, bitmap uint16, options Option, size int) []Place {
	var places []Place
	off := 0
	for bit := range uint8(16) {
		if bitmap&(0x8000>>bit) == 0 {
			continue
		}
		row := rowsOf[f][options&7][bit]
		if row == nil {
			off += 4
			continue
		}
		if row.Last {
			places = append(places, Place{Field: row.Parts[0].Field, Off: size - 4, Bytes: 4, Bits: row.Parts[0].Bits})
			continue
		}
		at := 0 // bits from the beginning of the row
		for _, p := range row.Parts {
			bytes := 4
			if p.Bits == 64 {
				bytes = 8
			}
			word := at / 32 * 4
			places = append(places, Place{
				Field: p.Field, Off: off + word, Bytes: bytes, Bits: p.Bits,
				Shift: uint8(8*bytes - (at - 8*word) - int(p.Bits)),
			})
			at += int(p.Bits)
		}
		off += 4 * row.Words()
	}
	return places
}
