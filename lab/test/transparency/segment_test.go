// SPDX-License-Identifier: Apache-2.0

package transparency

import "encoding/binary"

// struct virtio_net_hdr of linux/virtio_net.h, in the machine's byte order.
const (
	vnetNeedsSum = 1
	vnetGSOTCP4  = 1
	vnetGSOTCP6  = 4
	vnetGSOUDP   = 5
	vnetGSOECN   = 0x80
)

// completeSum fills in a checksum that the kernel left to the device.
func completeSum(vnet, frame []byte) []byte {
	start, off := int(binary.NativeEndian.Uint16(vnet[6:])), int(binary.NativeEndian.Uint16(vnet[8:]))
	if vnet[0]&vnetNeedsSum == 0 || vnet[1]&^vnetGSOECN != 0 || start+off+2 > len(frame) {
		return frame // of trains each segment gets its own
	}
	// The field holds the sum over the pseudo header.
	sum := checksum(frame[start:])
	if sum == 0 && off == 6 { // UDP: 0 means none
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(frame[start+off:], sum)
	return frame
}

// segments cuts a GSO frame as a device does. Others, and those that are under another
// header (tunnels), come back whole.
func segments(vnet, frame []byte, l3 bool) [][]byte {
	kind, size := vnet[1]&^vnetGSOECN, int(binary.NativeEndian.Uint16(vnet[4:]))
	d := decode(frame, l3, 0)
	if kind == 0 || size == 0 || d == nil || d.l4 == 0 {
		return [][]byte{frame}
	}
	hdr := 8
	switch {
	case d.proto == 6 && (kind == vnetGSOTCP4 || kind == vnetGSOTCP6) && d.l4+20 <= len(frame):
		hdr = int(frame[d.l4+12]>>4) * 4
	case d.proto == 17 && kind == vnetGSOUDP:
	default:
		return [][]byte{frame}
	}
	head, payload := frame[:d.l4+hdr], frame[d.l4+hdr:d.end]
	var list [][]byte
	for k := 0; len(payload) > 0; k++ {
		part := payload[:min(size, len(payload))]
		payload = payload[len(part):]
		b := append(append([]byte(nil), head...), part...)
		fixSegment(b, d, k, k*size, len(payload) == 0)
		list = append(list, b)
	}
	return list
}

// fixSegment makes segment k of a copy of the head and its part of the payload.
func fixSegment(b []byte, d *decoded, k, off int, last bool) {
	l3, l4 := b[d.l3:], b[d.l4:]
	if d.version == 4 {
		binary.BigEndian.PutUint16(l3[2:], uint16(len(l3)))
		binary.BigEndian.PutUint16(l3[4:], binary.BigEndian.Uint16(l3[4:])+uint16(k))
		sumIPv4(l3)
	} else {
		binary.BigEndian.PutUint16(l3[4:], uint16(len(l3)-40))
	}
	if d.proto == 6 {
		binary.BigEndian.PutUint32(l4[4:], binary.BigEndian.Uint32(l4[4:])+uint32(off))
		if !last {
			l4[13] &^= 0x09 // FIN, PSH
		}
		if k > 0 {
			l4[13] &^= 0x80 // CWR
		}
		binary.BigEndian.PutUint16(l4[16:], 0)
		binary.BigEndian.PutUint16(l4[16:], sumL4(l3, l4, 6))
		return
	}
	binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	binary.BigEndian.PutUint16(l4[6:], 0)
	sum := sumL4(l3, l4, 17)
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(l4[6:], sum)
}

// checksum is that of RFC 1071; over a right header it is 0.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

func sumIPv4(ip []byte) {
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip[:int(ip[0]&15)*4]))
}

// sumL4 is the checksum over the pseudo header of ip and l4.
func sumL4(ip, l4 []byte, proto uint8) uint16 {
	var pseudo []byte
	if ip[0]>>4 == 4 {
		pseudo = append(pseudo, ip[12:20]...)
	} else {
		pseudo = append(pseudo, ip[8:40]...)
	}
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(l4)))
	pseudo = append(pseudo, 0, 0, 0, proto)
	return checksum(append(pseudo, l4...))
}
