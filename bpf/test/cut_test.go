// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestTrainCutInside: a queue between a node's two ports (on a bridge or VLAN above
// the second) cuts a train: each segment bears the mark of the whole.
func TestTrainCutInside(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range trainNames {
			for _, size := range []int{1, 2, 3} {
				t.Run(fmt.Sprintf("%s/%s/by %d", carry, name, size), func(t *testing.T) {
					testCutInside(d.in(t), loadTrain(t, name), size)
				})
			}
		}
	}
}

func testCutInside(d *domain, tr trainOf, size int) {
	w := d.send(tr.whole)
	d.counted(tally{cSeen: uint64(len(tr.segments)), cMarked: uint64(len(tr.segments))})
	index := d.guid(w.data)
	inside := d.ingress(r1In, d.link(w, 2))
	segs := tr.cut(d, inside)
	for at := 0; at < len(segs); at += size {
		n := min(size, len(segs)-at)
		piece := segs[at]
		if n > 1 {
			piece = join(d, segs[at:at+n]...)
			piece.mark = inside.mark
		}
		out := d.egress(r1Out, d.route(piece, r1In))
		part := trainOf{segments: tr.segments[at : at+n], fixedID: tr.fixedID}
		for k, seg := range part.cut(d, out) {
			end := d.deliver(seg, 1)
			same(d, fmt.Sprint("segment ", at+k), end.data, lowered(d, tr.segments[at+k], 4))
		}
	}
	d.counted(nil)
	for k := range tr.segments {
		first := "F"
		if k%size != 0 {
			first = "" // the skb is counted at its first packet
		}
		want := fmt.Sprintf("out@2/%sP deliver@3/FP", first)
		switch {
		case len(tr.segments) <= size && k == 0:
			want = "out@0/FS in@1/F out@2/F deliver@3/FP"
		case len(tr.segments) <= size:
			want = "deliver@3/FP"
		case k == 0:
			want = "out@0/FS in@1/F " + want
		}
		d.wantStory(index+uint32(k), want)
	}
}

// TestRunCutInside: GRO has joined lone packets as they came into the node; the train is
// cut there again.
func TestRunCutInside(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range trainNames {
		if strings.HasPrefix(name, "train-six-") {
			continue // GRO joins no packets whose flow labels differ
		}
		t.Run(name, func(t *testing.T) {
			d, tr := d.in(t), loadTrain(t, name)
			wire := make([]frame, len(tr.segments))
			for k, s := range tr.segments {
				wire[k] = d.link(d.send(frame{data: s}), 0)
			}
			index := d.guid(wire[0].data)
			inside := d.ingress(r1In, join(t, wire...))
			for k, seg := range tr.cut(t, inside) {
				end := d.deliver(d.egress(r1Out, d.route(seg, r1In)), 0)
				same(t, fmt.Sprint("segment ", k), end.data, lowered(t, tr.segments[k], 1))
				first := "/F"
				if k > 0 {
					first = ""
				}
				d.wantStory(index+uint32(k), fmt.Sprintf("out@0/FS in@1%s out@2/F deliver@3/F", first))
			}
		})
	}
}

// TestTrainShorterHeader: a node takes an extension header off a train, which keeps its
// mark. It is no longer what its slots say, but is known by TCP's sequence number.
func TestTrainShorterHeader(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{})
		if carry == "header" {
			d.carryHeader(nodeH2)
		}
		tr := loadTrain(t, "train-six-options")
		strip := func(data []byte) []byte {
			at := etherHeader + 40
			next, n := data[at], (int(data[at+1])+1)*8
			out := append(bytes.Clone(data[:at]), data[at+n:]...)
			out[etherHeader+6] = next
			setLength(out)
			return out
		}
		w := d.send(tr.whole)
		if carry == "header" { // the same by bits, which a node sees that carries them
			whole := frame{data: strip(w.data), segs: w.segs, size: w.size}
			same(t, "at h2", d.ingress(h2In, whole).data, strip(tr.whole.data))
			d.counted(tally{cSeen: uint64(tr.whole.segs), cMarked: uint64(tr.whole.segs), cChanged: uint64(tr.whole.segs)})
			continue
		}
		in := d.route(d.ingress(r1In, d.link(w, 0)), r1In)
		in.data = strip(in.data)
		out := d.egress(r1Out, in)
		parts := trainOf{segments: make([][]byte, len(tr.segments)), fixedID: tr.fixedID}
		for k, s := range tr.segments {
			parts.segments[k] = strip(s)
		}
		for k, seg := range parts.cut(t, out) {
			same(t, fmt.Sprint("segment ", k), d.deliver(seg, 0).data, lowered(t, parts.segments[k], 1))
		}
		d.counted(tally{cSeen: uint64(tr.whole.segs), cMarked: uint64(tr.whole.segs), cChanged: uint64(tr.whole.segs)})
	}
}

// TestTrainTranslated: a translator (CLAT) makes a train of the one IP version one of the
// other and keeps its mark.
func TestTrainTranslated(t *testing.T) {
	six, four := loadTrain(t, "train-six-tcp").whole, loadTrain(t, "train-tcp").whole
	four.data = append(four.data[:etherHeader+20], six.data[etherHeader+40:]...)
	four.segs, four.size = six.segs, six.size
	setLength(four.data)
	setBits(t, four.data, 0, 63, 0)
	for name, c := range map[string][2]frame{"6 to 4": {six, four}, "4 to 6": {four, six}} {
		t.Run(name, func(t *testing.T) {
			d, to := newDomain(t, config{}), c[1]
			in := d.ingress(r1In, d.link(d.send(c[0]), 0))
			to.mark, to.from = in.mark, ifindex(r1In)
			out := d.egress(r1Out, to)
			same(t, "on the link", out.data, to.data)
			same(t, "at h2", d.deliver(out, 0).data, to.data)
			d.counted(tally{cSeen: uint64(six.segs), cMarked: uint64(six.segs),
				cForeignMark: uint64(six.segs), cPassed: 2 * uint64(six.segs)})
		})
	}
}
