// SPDX-License-Identifier: Apache-2.0

package ipfix

import "time"

// Of a message (RFC 7011, 3.1 to 3.3): its version, its header, a set's header.
const (
	version    = 10
	headerSize = 16
	setHeader  = 4
	// LeastBytes of a message hold every record that there is: the longest one is that of an interface with its names.
	LeastBytes = 512
)

// writer puts records into messages. What a record needs (its template, the names of its interfaces) is written before
// it.
type writer struct {
	o   *Options
	out func(b []byte, flows int)

	message  []byte
	set      int // where the set under way begins; 0: none
	setID    uint16
	records  uint32 // data records in the message
	flows    int
	sequence uint32 // data records of earlier messages

	templates map[uint16][]field // that were sent
	told      map[uint32]bool    // interfaces
	sentAt    time.Time          // when templates were sent first
	scratch   []byte
}

func (w *writer) newSession() (lost int) {
	lost = w.flows
	w.message, w.records, w.flows, w.set = nil, 0, 0, 0
	w.sequence, w.templates, w.told = 0, nil, nil
	return lost
}

// add writes a flow's record.
func (w *writer) add(f *flow, n *numbers) {
	w.begin()
	for _, number := range append([]uint32{f.key.in, f.key.out}, f.path...) {
		w.tell(number, n)
	}
	s := f.shape()
	id := flowTemplates + uint16(s)
	list := w.templates[id]
	if list == nil {
		list = fields(s, w.o.Postcards)
		w.templates[id] = list
		w.template(id, list)
	}
	w.scratch = w.scratch[:0]
	for i := range list {
		w.scratch = list[i].put(w.scratch, f)
	}
	w.data(id, w.scratch)
	w.flows++
}

// begin sees to it that a session begins with what its records need, and that this is told again in time.
func (w *writer) begin() {
	now := w.o.Now()
	if w.templates != nil && (w.o.Templates == 0 || now.Sub(w.sentAt) < w.o.Templates) {
		return
	}
	w.sentAt = now
	again := w.templates
	w.templates, w.told = make(map[uint16][]field), make(map[uint32]bool)
	w.optionsTemplate(domainTemplate, []field{{id: observationDomainID, size: 4}, {id: observationDomainName, size: varLength},
		{id: flowActiveTimeout, size: 2}, {id: flowIdleTimeout, size: 2}})
	w.optionsTemplate(interfaceTemplate, []field{{id: ingressInterface, size: 4}, {id: interfaceName, size: varLength},
		{id: interfaceDescription, size: varLength}, {id: observationPointID, size: 4}})
	for s := range shapes {
		id := flowTemplates + uint16(s)
		if list := again[id]; list != nil {
			w.templates[id] = list
			w.template(id, list)
		}
	}
	b := be.AppendUint32(nil, w.o.Domain)
	b = appendText(b, cutName(w.o.Name))
	b = be.AppendUint16(b, seconds(w.o.Active))
	b = be.AppendUint16(b, seconds(w.o.Idle))
	w.data(domainTemplate, b)
}

// seconds are what an element of 16 bits holds.
func seconds(d time.Duration) uint16 { return uint16(min(d/time.Second, 1<<16-1)) }

// tell writes the name of an interface, once.
func (w *writer) tell(number uint32, n *numbers) {
	if number == 0 || w.told[number] {
		return
	}
	w.told[number] = true
	p := n.of[number]
	b := be.AppendUint32(nil, number)
	b = appendText(b, p.Name)
	b = appendText(b, p.Node+"/"+p.Name)
	w.data(interfaceTemplate, be.AppendUint32(b, p.NodeNumber))
}

// appendText writes a field of variable length that is shorter than 255 bytes (RFC 7011, 7).
func appendText(b []byte, text string) []byte { return append(append(b, byte(len(text))), text...) }

// template writes a template record (RFC 7011, 3.4.1).
func (w *writer) template(id uint16, list []field) {
	b := be.AppendUint16(nil, id)
	b = be.AppendUint16(b, uint16(len(list)))
	w.put(setTemplate, appendFields(b, list))
}

// optionsTemplate writes an options template record, whose first field is its scope (RFC 7011, 3.4.2.2).
func (w *writer) optionsTemplate(id uint16, list []field) {
	b := be.AppendUint16(nil, id)
	b = be.AppendUint16(b, uint16(len(list)))
	b = be.AppendUint16(b, 1)
	w.put(setOptionsTemplate, appendFields(b, list))
}

func appendFields(b []byte, list []field) []byte {
	for i := range list {
		b = be.AppendUint16(b, list[i].id)
		b = be.AppendUint16(b, list[i].size)
	}
	return b
}

// data writes a data record.
func (w *writer) data(id uint16, b []byte) {
	w.put(id, b)
	w.records++
}

// put writes a record into a set of that number, in this message or the next.
func (w *writer) put(setID uint16, b []byte) {
	need := len(b) + padMost
	if w.set == 0 || w.setID != setID {
		need += setHeader
		if w.set != 0 { // the one under way is filled up, too
			need += padMost
		}
	}
	if len(w.message)+need > w.o.MostBytes {
		w.flush()
	}
	if len(w.message) == 0 {
		w.message = append(w.message, make([]byte, headerSize)...)
	}
	if w.set == 0 || w.setID != setID {
		w.endSet()
		w.set, w.setID = len(w.message), setID
		w.message = be.AppendUint16(w.message, setID)
		w.message = be.AppendUint16(w.message, 0)
	}
	w.message = append(w.message, b...)
}

// padMost is what endSet adds at most. No record is as short.
const padMost = 3

// endSet fills the set under way up to four bytes, and writes its length.
func (w *writer) endSet() {
	if w.set == 0 {
		return
	}
	for len(w.message)%4 != 0 {
		w.message = append(w.message, 0)
	}
	be.PutUint16(w.message[w.set+2:], uint16(len(w.message)-w.set))
	w.set = 0
}

// flush hands the message on.
func (w *writer) flush() {
	if len(w.message) == 0 {
		return
	}
	w.endSet()
	be.PutUint16(w.message, version)
	be.PutUint16(w.message[2:], uint16(len(w.message)))
	be.PutUint32(w.message[4:], uint32(w.o.Now().Unix()))
	be.PutUint32(w.message[8:], w.sequence)
	be.PutUint32(w.message[12:], w.o.Domain)
	message, flows := w.message, w.flows
	w.sequence += w.records
	w.message, w.records, w.flows = w.message[:0], 0, 0
	w.out(message, flows)
}
