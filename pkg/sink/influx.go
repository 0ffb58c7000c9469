// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// A batch goes when it has so many points, or when its first is so old.
const (
	batchPoints = 5000
	batchAge    = time.Second
)

const (
	influxTimeout = 10 * time.Second // for one request
	mostPatience  = 30 * time.Second // what a server may ask for (Retry-After)
)

// Influx writes to InfluxDB by HTTP.
type Influx struct {
	url    string
	target target // that points go to
	header http.Header
	client *http.Client
	log    *slog.Logger
	points *points
	tally  *Tally
	// Of batches that are sent again, and of those that are refused.
	failures, refusals episode
}

// NewInflux makes the output, without asking the server. The address is that of an InfluxDB 1.x
// with the parameter db (and rp), user and password in it if it asks for them; or of 2.x with org
// and bucket, for which token is.
func NewInflux(address, token string, n metrics.Namer, log *slog.Logger) (*Influx, error) {
	u, err := url.Parse(address)
	if err != nil {
		u = &url.URL{} // err may show a password
	}
	q := u.Query()
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("use http://HOST:PORT/?db=NAME")
	case q.Has("db") == q.Has("bucket"):
		return nil, errors.New("name a database, ?db=NAME, or for InfluxDB 2 ?org=NAME&bucket=NAME")
	}
	i := &Influx{header: make(http.Header), log: log, points: newPoints(n), client: &http.Client{
		Timeout: influxTimeout,
		// Who is sent elsewhere is at the wrong address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	i.target = targetOf(u, q)
	path := "/write"
	if q.Has("bucket") {
		path = "/api/v2/write"
		if token != "" {
			i.header.Set("Authorization", "Token "+token)
		}
	}
	if !strings.HasSuffix(u.Path, path) { // it may be below another path
		u.Path = strings.TrimSuffix(u.Path, "/") + path
	}
	q.Set("precision", "ns")
	u.RawQuery = q.Encode()
	i.header.Set("Content-Type", "text/plain; charset=utf-8")
	i.url = u.String() // net/http takes user and password out of it
	return i, nil
}

// Name implements Output.
func (i *Influx) Name() string { return "influx" }

// Run implements Output.
func (i *Influx) Run(ctx context.Context, q <-chan Item, n *Tally) error {
	i.tally = n
	i.points.reset()
	age := time.NewTimer(batchAge)
	defer age.Stop()
	for {
		select {
		case it, ok := <-q:
			if !ok {
				i.flush(ctx)
				return nil
			}
			if i.points.n == 0 {
				age.Reset(batchAge)
			}
			i.add(ctx, it)
		case <-age.C:
			i.flush(ctx)
		}
	}
}

func (i *Influx) add(ctx context.Context, it Item) {
	if it.Snapshot == nil {
		i.points.event(&it.Event)
		i.flushIfFull(ctx)
		return
	}
	defer it.Release()
	for n := range it.Snapshot.Rows {
		i.points.row(&it.Snapshot.Rows[n])
		i.flushIfFull(ctx)
	}
}

func (i *Influx) flushIfFull(ctx context.Context) {
	if i.points.n >= batchPoints {
		i.flush(ctx)
	}
}

// flush sends the batch, again and again where it may help; meanwhile events wait in the queue, and
// what finds that full is dropped.
func (i *Influx) flush(ctx context.Context) {
	n := i.points.n
	if n == 0 {
		return
	}
	defer i.points.reset()
	lacked := false
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		answer := i.write(ctx)
		lacked = lacked || answer.lacks
		if lacked && (answer.code == http.StatusUnauthorized || answer.code == http.StatusForbidden) {
			answer.again = true // rights to a database come after it
		}
		if answer.ok {
			i.tally.Written.Add(n)
			return
		}
		if ctx.Err() == nil {
			i.complain(answer)
		}
		if !answer.again {
			lost := answer.dropped(n)
			i.tally.GivenUp.Add(lost)
			i.tally.Written.Add(n - lost)
			return
		}
		if !pause(ctx, max(wait, answer.wait)) {
			i.tally.GivenUp.Add(n)
			return
		}
		i.tally.Retries.Add(1)
	}
}

// answer is what a server says to a batch.
type answer struct {
	ok    bool
	again bool // it may take it later
	lacks bool // it has not what points are for
	code  int  // of HTTP; 0: there is none
	wait  time.Duration
	text  string
}

// send posts a body.
func (i *Influx) send(ctx context.Context, to string, body []byte) answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return answer{text: "no request"}
	}
	for name, values := range i.header {
		request.Header[name] = values
	}
	response, err := i.client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // the URL is long, and known
		}
		return answer{again: true, text: err.Error()}
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // then the connection can be used again
	code := response.StatusCode
	seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16)
	return answer{
		code:  code,
		ok:    code/100 == 2,
		again: code/100 == 5 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout,
		wait:  min(time.Duration(seconds)*time.Second, mostPatience),
		text:  fmt.Sprintf("%s: %s", response.Status, strings.TrimSpace(string(text))),
	}
}

// droppedRE is how InfluxDB 1.x says that it took a part.
var droppedRE = regexp.MustCompile(`partial write: .* dropped=(\d+)`)

// dropped is how many of a batch of n points the server did not take.
func (a *answer) dropped(n uint64) uint64 {
	if found := droppedRE.FindStringSubmatch(a.text); found != nil {
		if lost, err := strconv.ParseUint(found[1], 10, 64); err == nil {
			return min(lost, n)
		}
	}
	return n
}

// complain says what went wrong, once an episode.
func (i *Influx) complain(a answer) {
	of := &i.refusals
	if a.again {
		of = &i.failures
	}
	if !of.news(time.Now(), a.text) {
		return
	}
	if a.again {
		i.log.Warn("InfluxDB does not take points, which are sent again", "error", a.text)
	} else {
		i.log.Warn("InfluxDB refuses points", "error", a.text)
	}
}
