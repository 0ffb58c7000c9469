// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"hash/fnv"
	"net/netip"
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

const (
	protoTCP = record.ProtoTCP
	tcpFin   = 1
	tcpRst   = 4
)

// Counts are of packets, and of what was made of them.
type Counts struct {
	Packets    uint64 `json:"packets"`    // that were metered: segments of trains counted each
	Bytes      uint64 `json:"bytes"`      // of them
	Flows      uint64 `json:"flows"`      // flow records
	Messages   uint64 `json:"messages"`   // that were made
	NoHeader   uint64 `json:"no_header"`  // packets whose header is not known
	NoHops     uint64 `json:"no_hops"`    // packets that no node is known of
	Copies     uint64 `json:"copies"`     // visits of further copies, which no postcard has
	CutPaths   uint64 `json:"cut_paths"`  // packets with more interfaces on their way than a list holds
	Evicted    uint64 `json:"evicted"`    // flow records that ended for lack of room
	Unnumbered uint64 `json:"unnumbered"` // visits of interfaces for which there was no number left
}

// Options say what is exported.
type Options struct {
	Domain       uint32 // observation domain id
	Name         string // of the domain
	Postcards    bool   // a record of each node of the way, else one of its end
	Active, Idle time.Duration
	Settle       time.Duration // packets come up to so much later than younger ones: flows wait for them
	MostFlows    int
	MostBytes    int           // of a message
	Templates    time.Duration // they are sent again after so long; 0: never
	Now          func() time.Time
}

// Exporter makes messages of records. It is for one goroutine.
type Exporter struct {
	Counts
	o       Options
	cache   *cache
	numbers *numbers
	w       writer
}

// New returns an Exporter that hands each message to out, which does not keep it.
func New(o Options, ports []Port, out func(message []byte, flows int)) *Exporter {
	e := &Exporter{o: o, numbers: newNumbers(ports)}
	e.w = writer{o: &e.o, out: func(b []byte, flows int) {
		e.Messages++
		out(b, flows)
	}}
	e.cache = newCache(&e.o, e.expired)
	return e
}

// SetPorts tells of new ports of the domain.
func (e *Exporter) SetPorts(ports []Port) { e.numbers.set(ports) }

// Advance ends flows that have had no packet up to a time, Unix ns, and sends what is ready.
func (e *Exporter) Advance(unixNs int64) {
	e.cache.advance(unixNs)
	e.w.flush()
}

// Flush ends all flows and sends what is ready.
func (e *Exporter) Flush() {
	e.cache.endAll()
	e.w.flush()
}

// NewSession begins a transport session: templates and names are sent again, numbers count from 0. What is ready and was
// not handed on belongs to the old one: it returns how many flow records these are.
func (e *Exporter) NewSession() (lost int) { return e.w.newSession() }

func (e *Exporter) expired(f *flow) {
	e.Flows++
	if f.reason == lackOfResources {
		e.Evicted++
	}
	e.w.add(f, e.numbers)
}

// Add meters a packet that has ended.
func (e *Exporter) Add(r *record.Record) {
	k, ok := headerOf(r)
	switch {
	case !ok:
		e.NoHeader++
		return
	case len(r.Hops) == 0:
		e.NoHops++
		return
	}
	e.Packets += uint64(max(r.Segs, 1))
	e.Bytes += uint64(max(r.Len, 0))
	id, lossHop := hashKey(&k), r.LossHop()
	if e.o.Postcards {
		e.postcards(r, k, id, lossHop)
		return
	}
	way := wayOf(r, lossHop)
	at := way[len(way)-1]
	final := k
	var path []uint32
	digest := newDigest()
	for _, n := range way {
		h := &r.Hops[n]
		in, out := e.ports(h)
		digest.add(e.numbers.node(h), in, out)
		final.translate(h)
		if n != at && len(path) < mostPath {
			path = append(path, out)
		}
	}
	if len(way)-1 > mostPath {
		e.CutPaths++
	}
	k.nat = final.src != k.src || final.dst != k.dst || final.sport != k.sport || final.dport != k.dport
	if k.nat {
		k.postSrc, k.postDst, k.postSport, k.postDport = final.src, final.dst, final.sport, final.dport
	}
	k.path = digest.sum
	e.count(r, at, k, id, path, lossHop)
}

// postcards counts a packet at each node of its way.
func (e *Exporter) postcards(r *record.Record, k key, id uint64, lossHop int) {
	digests := make([]digest, len(r.Hops))
	tuples := make([]key, len(r.Hops))
	for i := range r.Hops {
		h := &r.Hops[i]
		in, out := e.ports(h)
		came := k
		digests[i] = newDigest()
		if prev := r.PrevOf(i); prev >= 0 {
			digests[i], came = digests[prev], tuples[prev]
		}
		digests[i].add(e.numbers.node(h), in, out)
		tuples[i] = came
		tuples[i].translate(h)
		if h.Copy {
			e.Copies++
			continue
		}
		at := came
		if left := &tuples[i]; *left != came {
			at.nat = true
			at.postSrc, at.postDst, at.postSport, at.postDport = left.src, left.dst, left.sport, left.dport
		}
		at.path = digests[i].sum
		e.count(r, i, at, id, nil, lossHop)
	}
}

// count counts a packet at one of its hops.
func (e *Exporter) count(r *record.Record, at int, k key, id uint64, path []uint32, lossHop int) {
	h := &r.Hops[at]
	k.node = e.numbers.node(h)
	k.in, k.out = e.ports(h)
	since, known := ingressNs(h)
	seen := r.TNs
	if known {
		seen += since
	}
	f, isNew := e.cache.of(k, seen)
	if isNew {
		f.id, f.path = id, path
		f.tos = uint8(r.DSCP<<2 | r.ECN)
		if r.FlowLabel != nil {
			f.label = uint32(*r.FlowLabel)
		}
	}
	n := uint64(max(r.Segs, 1))
	f.first, f.last = min(f.first, seen), max(f.last, seen)
	f.packets += n
	f.octets += uint64(max(r.Len, 0))
	if r.TCPFlags != nil {
		f.flags |= uint16(*r.TCPFlags)
		f.closed = f.closed || *r.TCPFlags&(tcpFin|tcpRst) != 0
	}
	lost, dropped := endedAt(r, at, lossHop)
	if dropped {
		f.dropped += n
	}
	if known && !lost && !r.Unordered {
		f.delay.add(since, n)
	}
}

// endedAt says whether a packet did not go on from a hop, and whether it is known to have been dropped there. lossHop is
// the packet's.
func endedAt(r *record.Record, at, lossHop int) (lost, dropped bool) {
	for i := range r.Losses {
		if l := &r.Losses[i]; l.Hop == at && !l.AfterDelivery {
			return true, !l.Inferred()
		}
	}
	if at != lossHop {
		return false, false
	}
	return true, !r.Loss.Inferred()
}

// ingressNs is when a packet came to a node, of its source when it left, since its first stamp.
func ingressNs(h *record.Hop) (ns int64, known bool) {
	switch {
	case h.AtNs == nil:
		return 0, false
	case h.Port == "" || h.NodeNs == nil: // at the end AtNs is the ingress; a source has none
		return *h.AtNs, h.Port == "" || h.InPort == ""
	}
	return *h.AtNs - *h.NodeNs, true
}

func (e *Exporter) ports(h *record.Hop) (in, out uint32) {
	in, out = e.numbers.port(h, h.InPort), e.numbers.port(h, h.Port)
	if in == 0 && h.InPort != "" || out == 0 && h.Port != "" {
		e.Unnumbered++
	}
	return in, out
}

// wayOf are the hops of a packet from its start to its end; of one with copies, of the copy that ended as the packet
// did. Where the order is not known, a loss is the end.
func wayOf(r *record.Record, lossHop int) []int {
	end := len(r.Hops) - 1
	if !r.Straight() {
		for i := range r.Hops {
			if r.Hops[i].Outcome == r.State {
				end = i
			}
		}
	}
	if r.Unordered && lossHop >= 0 {
		end = lossHop
	}
	var way []int
	for i := end; i >= 0; i = r.PrevOf(i) {
		way = append(way, i)
	}
	for i, j := 0, len(way)-1; i < j; i, j = i+1, j-1 {
		way[i], way[j] = way[j], way[i]
	}
	return way
}

// headerOf reads what a record knows of the packet's header.
func headerOf(r *record.Record) (k key, ok bool) {
	var srcErr, dstErr error
	k.src, srcErr = netip.ParseAddr(r.Src)
	k.dst, dstErr = netip.ParseAddr(r.Dst)
	if srcErr != nil || dstErr != nil || k.src.Is4() != k.dst.Is4() {
		return k, false
	}
	k.src, k.dst = k.src.WithZone(""), k.dst.WithZone("")
	k.proto, ok = record.ParseProto(r.Proto)
	k.fragment = r.FragOff != nil && *r.FragOff > 0
	if r.Sport != nil && r.Dport != nil {
		k.hasPorts, k.sport, k.dport = true, uint16(*r.Sport), uint16(*r.Dport)
	}
	if r.ICMPType != nil {
		k.hasICMP, k.icmp = true, uint16(*r.ICMPType)<<8
		if r.ICMPCode != nil {
			k.icmp |= uint16(*r.ICMPCode) & 0xff
		}
		if r.ICMPID != nil {
			k.echo = uint16(*r.ICMPID)
		}
	}
	return k, ok
}

// translate takes over what a node changed.
func (k *key) translate(h *record.Hop) {
	for _, c := range []struct {
		text string
		to   *netip.Addr
	}{{h.Src, &k.src}, {h.Dst, &k.dst}} {
		if addr, err := netip.ParseAddr(c.text); err == nil && addr.Is4() == c.to.Is4() {
			*c.to = addr.WithZone("")
		}
	}
	if h.Sport != nil {
		k.sport = uint16(*h.Sport)
	}
	if h.Dport != nil {
		k.dport = uint16(*h.Dport)
	}
}

// hashKey is the number of a flow: the same for every record about it, and in every run.
func hashKey(k *key) uint64 {
	h := fnv.New64a()
	src, dst := k.src.As16(), k.dst.As16()
	_, _ = h.Write(src[:])
	_, _ = h.Write(dst[:])
	b := be.AppendUint16(nil, k.sport)
	b = be.AppendUint16(b, k.dport)
	b = be.AppendUint16(b, k.icmp)
	b = be.AppendUint16(b, k.echo)
	b = append(b, k.proto)
	if k.fragment {
		b = append(b, 1)
	}
	_, _ = h.Write(b)
	return h.Sum64()
}

// digest tells ways apart.
type digest struct{ sum uint64 }

func newDigest() digest { return digest{14695981039346656037} }

// add is FNV-1a over the numbers of a node and its interfaces. The node's counts where no interface is known.
func (d *digest) add(node, in, out uint32) {
	for _, n := range [3]uint32{node, in, out} {
		for range 4 {
			d.sum = (d.sum ^ uint64(n&0xff)) * 1099511628211
			n >>= 8
		}
	}
}
