// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/send"
	"github.com/vnetradar/radar/pkg/words"
)

// wayCounts are what became of messages.
type wayCounts struct {
	To         string            `json:"to"`
	Sent       uint64            `json:"sent"`       // messages
	SentFlows  uint64            `json:"sent_flows"` // records in them
	Lost       uint64            `json:"lost"`       // messages that did not go, or were refused
	LostFlows  uint64            `json:"lost_flows"`
	Refused    uint64            `json:"refused"`    // answers that nobody listens there
	Reconnects uint64            `json:"reconnects"` // connections but the first
	Errors     map[string]uint64 `json:"errors,omitempty"`
}

func (c *wayCounts) took(flows int) {
	c.Sent++
	c.SentFlows += uint64(flows)
}

func (c *wayCounts) lose(messages, flows int) {
	c.Lost += uint64(messages)
	c.LostFlows += uint64(flows)
}

// failed counts an error; of different ones there are few.
func (c *wayCounts) failed(err error) {
	if c.Errors == nil {
		c.Errors = make(map[string]uint64)
	}
	c.Errors[err.Error()]++
}

// failure is that nothing went.
func (c *wayCounts) failure() error {
	if c.Lost == 0 || c.Sent > 0 {
		return nil
	}
	return fmt.Errorf("%s took no flow record", c.To)
}

// messages is "2 messages with 1 flow record".
func messages(n, flows uint64) string {
	return words.Plural(int(n), "message") + " with " + words.Plural(int(flows), "flow record")
}

// line says it.
func (c *wayCounts) line() string {
	line := fmt.Sprintf("%s: %s sent", c.To, messages(c.Sent, c.SentFlows))
	if c.Refused > 0 {
		line += fmt.Sprintf(", %s that nobody listens there", words.Plural(int(c.Refused), "answer"))
	}
	if c.Reconnects > 0 {
		line += ", connected again " + words.Plural(int(c.Reconnects), "time")
	}
	if c.LostFlows > 0 || c.Lost > 0 {
		var texts []string
		for text, n := range c.Errors {
			texts = append(texts, fmt.Sprintf("%s %d", text, n))
		}
		slices.Sort(texts)
		line += fmt.Sprintf("; %s lost", messages(c.Lost, c.LostFlows))
		if len(texts) > 0 {
			line += " (" + strings.Join(texts, ", ") + ")"
		}
	}
	return line
}

// Bytes of the headers before a message.
const (
	headersIPv4 = 20 + 8
	headersIPv6 = 40 + 8
	mostMTU     = 1500
)

// udpWay sends each message as a datagram.
type udpWay struct {
	*sender
	most      int
	flows     uint64
	lost      uint64
	last      int       // flow records of the message that went last
	refused   uint64    // messages of which flow records were lost
	first     bool      // the first message was refused
	sentAt    time.Time // when the last message went
	refusedAt time.Time // when the last one went to which an answer came
}

func newUDPWay(name string, to netip.AddrPort, mtu uint16) (way, error) {
	socket, err := send.Dial(to)
	if err != nil {
		return nil, fmt.Errorf("collector %s: %w", name, err)
	}
	w := &udpWay{sender: &sender{socket, name}}
	headers := headersIPv4
	if to.Addr().Is6() {
		headers = headersIPv6
	}
	most := int(mtu)
	if most == 0 {
		most = max(min(pathMTU(to), mostMTU), leastMTU)
	}
	w.most = most - headers
	return w, nil
}

// pathMTU is what the kernel knows of the way to an address.
func pathMTU(to netip.AddrPort) int {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return mostMTU
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return mostMTU
	}
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if to.Addr().Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	mtu := mostMTU
	controlErr := raw.Control(func(fd uintptr) { mtu, err = unix.GetsockoptInt(int(fd), level, option) })
	if controlErr != nil || err != nil {
		return mostMTU
	}
	return mtu
}

func (w *udpWay) mostBytes() int            { return w.most }
func (w *udpWay) renew() bool               { return false }
func (w *udpWay) own(r *record.Record) bool { return w.isOwn(r) }
func (w *udpWay) close(bool) error          { return w.Close() }

func (w *udpWay) send(b []byte, flows int) {
	w.LookForRefusal()
	w.lookForRefusal()
	before := w.Counts().Failed
	w.Send(b)
	w.lookForRefusal()
	if w.Counts().Failed > before {
		w.lost += uint64(flows)
		return
	}
	first := w.sentAt.IsZero()
	w.flows += uint64(flows)
	w.last, w.sentAt = flows, time.Now()
	if first { // of the first one alone it is certain which message is refused
		w.first = w.AwaitRefusal(w.sentAt.Add(answerWithin))
		w.lookForRefusal()
	}
}

// lookForRefusal counts flow records of messages that were refused as lost. The answer does not say which message it is
// to: most likely the last one.
func (w *udpWay) lookForRefusal() {
	c := w.Counts()
	n := c.Refused + c.Late
	if n == w.refused {
		return
	}
	w.flows, w.lost = w.flows-uint64(w.last), w.lost+uint64(w.last)
	w.refused, w.last, w.refusedAt = n, 0, w.sentAt
}

// answerWithin is how long the answer to a message may take that nobody listens there. answerEvery is how often one comes
// at least where all messages are refused: Linux gives one a second to another network namespace or machine.
const (
	answerWithin = 200 * time.Millisecond
	answerEvery  = 2 * time.Second
)

// nobody says whether nothing tells that anybody has listened: the first message was refused, and so was one of the last.
func (w *udpWay) nobody() bool {
	return w.first && w.Counts().Late == 0 && w.sentAt.Sub(w.refusedAt) < answerEvery
}

// failure is also that all messages were refused. Of a collector that has taken messages no answer comes: it is waited
// for only where some have come.
func (w *udpWay) failure() error {
	end := time.Now()
	if c := w.Counts(); c.Refused+c.Late > 0 {
		end = end.Add(answerWithin)
	}
	for c := w.Counts(); c.Refused+c.Late < c.Sent && w.AwaitRefusal(end); c = w.Counts() {
		w.lookForRefusal()
	}
	if w.nobody() {
		return fmt.Errorf("nobody listens at %s by UDP, all flow records are lost: start a collector there (one that listens by TCP: --transport tcp)", w.name)
	}
	return w.counts().failure()
}

func (w *udpWay) counts() *wayCounts {
	c := w.Counts()
	refused := min(c.Refused, c.Sent)
	if w.nobody() { // answers are limited in rate
		refused = c.Sent
	}
	late := min(c.Late, c.Sent-refused)
	all := &wayCounts{To: w.name, Sent: c.Sent - refused - late, SentFlows: w.flows, Lost: c.Failed + refused + late, LostFlows: w.lost, Refused: c.Refused, Errors: c.Errors}
	if all.Sent == 0 { // several answers may have come to one message's records
		all.SentFlows, all.LostFlows = 0, w.flows+w.lost
	}
	return all
}

// Of connections: how long connecting and writing may take, when the next try is, and how long history waits.
const (
	connectWithin = 5 * time.Second
	writeWithin   = 5 * time.Second
	tryEvery      = time.Second
	historyTries  = 10
)

// tcpWay sends messages by a connection, and connects again.
type tcpWay struct {
	ctx     context.Context
	stop    context.CancelFunc
	to      netip.AddrPort
	conn    net.Conn      // nil: there is none
	gone    chan struct{} // closed: the collector has ended the connection
	trying  chan dialed   // nil: nobody connects
	next    time.Time
	patient bool // what there is waits for the collector; what comes does not
	gaveUp  bool // what there is has waited for long enough
	fresh   bool
	stale   bool // the message under way is of an earlier session
	wayCounts
}

// dialed is what became of a try to connect.
type dialed struct {
	conn net.Conn
	err  error
}

func newTCPWay(ctx context.Context, name string, to netip.AddrPort, patient bool) (way, error) {
	w := &tcpWay{to: to, patient: patient, wayCounts: wayCounts{To: name}}
	w.ctx, w.stop = context.WithCancel(ctx)
	d := w.dial()
	if d.err != nil {
		w.stop()
		return nil, fmt.Errorf("no collector at %s: %w: start one there (nfcapd listens by UDP alone: --transport udp)", name, d.err)
	}
	w.use(d.conn)
	return w, nil
}

func (w *tcpWay) dial() (d dialed) {
	dialer := net.Dialer{Timeout: connectWithin}
	conn, err := dialer.DialContext(w.ctx, "tcp", w.to.String())
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return dialed{conn, err}
}

// use takes a connection. Collectors say nothing: what reading waits for is the end.
func (w *tcpWay) use(conn net.Conn) {
	gone := make(chan struct{})
	w.conn, w.gone = conn, gone
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
}

func (w *tcpWay) mostBytes() int            { return 8 << 10 }
func (w *tcpWay) own(r *record.Record) bool { return isOwnTCP(r, []netip.AddrPort{w.to}) }
func (w *tcpWay) counts() *wayCounts        { return &w.wayCounts }

func (w *tcpWay) renew() (fresh bool) {
	w.look()
	if w.conn == nil && !w.patient {
		w.reconnect()
	}
	fresh, w.fresh, w.stale = w.fresh, false, false
	return fresh
}

func (w *tcpWay) close(bool) error {
	w.stop()
	if w.trying != nil {
		if d := <-w.trying; d.conn != nil {
			_ = d.conn.Close()
		}
	}
	if w.conn == nil {
		return nil
	}
	return w.conn.Close()
}

// errGone is that a collector has ended the connection.
var errGone = errors.New("the collector ended the connection")

// look drops a connection that the collector has ended: the kernel would take one more message.
func (w *tcpWay) look() {
	if w.conn == nil {
		return
	}
	select {
	case <-w.gone:
		w.drop(errGone)
	default:
	}
}

func (w *tcpWay) drop(err error) {
	w.failed(err)
	w.conn.Close()
	w.conn = nil
}

func (w *tcpWay) send(b []byte, flows int) {
	w.look()
	if w.conn == nil {
		w.reconnect()
	}
	if w.conn == nil || w.stale { // without its templates a new session understands nothing
		w.lose(1, flows)
		return
	}
	_ = w.conn.SetWriteDeadline(time.Now().Add(writeWithin))
	if _, err := w.conn.Write(b); err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		w.drop(err)
		w.lose(1, flows)
		w.reconnect()
		return
	}
	w.took(flows)
}

// reconnect tries to connect: where there is time, for a while, else behind the back of who sends.
func (w *tcpWay) reconnect() {
	if !w.patient {
		w.tryOn()
		return
	}
	for try := 0; !w.gaveUp && w.ctx.Err() == nil; try++ {
		switch {
		case try == historyTries || w.Reconnects == historyTries: // who comes again and again is no collector
			w.gaveUp = true
		case try == 0 || kit.Wait(w.ctx, tryEvery):
			if d := w.dial(); w.connected(d) {
				return
			}
		}
	}
}

// tryOn looks what became of the last try to connect, or begins another one.
func (w *tcpWay) tryOn() {
	if w.trying == nil {
		if w.ctx.Err() != nil || time.Now().Before(w.next) {
			return
		}
		result := make(chan dialed, 1)
		w.trying = result
		go func() { result <- w.dial() }()
	}
	select {
	case d := <-w.trying:
		w.trying, w.next = nil, time.Now().Add(tryEvery)
		w.connected(d)
	default:
	}
}

// connected takes what became of a try to connect, and says whether there is a connection.
func (w *tcpWay) connected(d dialed) bool {
	if d.err != nil {
		w.failed(d.err)
		return false
	}
	w.Reconnects++
	w.fresh, w.stale = true, true
	w.use(d.conn)
	return true
}

func (w *tcpWay) failure() error {
	if w.gaveUp {
		return fmt.Errorf("%s was gone, and did not come again", w.To)
	}
	return w.wayCounts.failure()
}

// fileWay writes messages one behind the other (RFC 5655).
type fileWay struct {
	file *renameio.PendingFile // nil: out is the file itself
	out  *os.File
	w    *bufio.Writer
	err  error
	wayCounts
}

// newFileWay writes a file anew. What is none (a pipe, a device) is written as it is.
func newFileWay(path string) (way, error) {
	w := &fileWay{wayCounts: wayCounts{To: path}}
	info, err := os.Stat(path)
	_, linkErr := os.Readlink(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		w.out, err = os.OpenFile(path, os.O_WRONLY, 0)
	case err != nil && linkErr == nil: // a link to nothing would be replaced itself
	default:
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if w.file, err = renameio.NewPendingFile(path, renameio.WithPermissions(0o644)); err == nil {
			w.out = w.file.File
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--file: %w", kit.NamedFile(w.To, err))
	}
	w.w = bufio.NewWriter(w.out)
	return w, nil
}

func (w *fileWay) mostBytes() int          { return 8 << 10 }
func (w *fileWay) own(*record.Record) bool { return false }
func (w *fileWay) counts() *wayCounts      { return &w.wayCounts }
func (w *fileWay) renew() bool             { return false }
func (w *fileWay) failure() error          { return nil } // closing says it

func (w *fileWay) send(b []byte, flows int) {
	if _, err := w.w.Write(b); err != nil {
		if w.err == nil {
			w.err = err
			w.failed(err)
		}
		w.lose(1, flows)
		return
	}
	w.took(flows)
}

// close finishes the file; one that is not whole is not left.
func (w *fileWay) close(whole bool) error {
	err := errors.Join(w.err, w.w.Flush())
	switch {
	case w.file == nil:
		err = errors.Join(err, w.out.Close())
	case err != nil || !whole:
		err = errors.Join(err, w.file.Cleanup())
	default:
		err = w.file.CloseAtomicallyReplace()
	}
	if err != nil {
		return fmt.Errorf("--file: %w", kit.NamedFile(w.To, err))
	}
	return nil
}
