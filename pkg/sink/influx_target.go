// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// target is the database or the bucket that points go to. A server may not have it yet, or no longer:
// points wait for it as they wait for the server.
type target struct {
	what   string // to people: database "radar"
	create string // URL of the statement that makes it; "": only its owner can
	how    string // what its owner has to do
}

// targetOf returns the target that an address names. Databases of InfluxDB 1.x can be made by whoever
// may write to all. A bucket of 2.x belongs to an organisation and has a retention time, and tokens
// for writing cannot make one: that is left to people.
func targetOf(u *url.URL, q url.Values) target {
	if q.Has("bucket") {
		return target{
			what: fmt.Sprintf("bucket %q", q.Get("bucket")),
			how:  fmt.Sprintf("make it: influx bucket create --org %q --name %q", q.Get("org"), q.Get("bucket")),
		}
	}
	statement := "CREATE DATABASE " + quoted(q.Get("db"))
	ask := url.Values{"q": {statement}}
	for _, name := range []string{"u", "p"} { // who asks, if that is no part of the host
		if q.Has(name) {
			ask.Set(name, q.Get(name))
		}
	}
	at := *u
	at.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/write"), "/") + "/query"
	at.RawQuery = ask.Encode()
	return target{what: fmt.Sprintf("database %q", q.Get("db")), create: at.String(), how: "make it: " + statement}
}

// quoted is a name as InfluxQL has it (InfluxQL reference, "Identifiers").
func quoted(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name) + `"`
}

// lacksTarget reports whether the server has no such database (1.x) or bucket (2.x, and databases that
// 2.x maps to buckets). Another 404 is of a wrong address.
func (a *answer) lacksTarget() bool {
	if a.code != http.StatusNotFound || strings.Contains(a.text, "path not found") {
		return false
	}
	return strings.Contains(a.text, "database not found") || strings.Contains(a.text, `"not found"`)
}

// write sends the batch, and makes the target that it is for if the server lacks that. Where that
// fails, points are kept until somebody else has made it.
func (i *Influx) write(ctx context.Context) answer {
	body := i.points.enc.Bytes()
	a := i.send(ctx, i.url, body)
	if !a.lacksTarget() {
		return a
	}
	if i.target.create == "" {
		a.lacks, a.again, a.text = true, true, fmt.Sprintf("%s is not there: %s (%s)", i.target.what, i.target.how, a.text)
		return a
	}
	made := i.send(ctx, i.target.create, nil)
	if made.ok && !strings.Contains(made.text, `"error"`) { // that of a statement is in a good answer
		if a = i.send(ctx, i.url, body); !a.lacksTarget() {
			i.log.Info("InfluxDB had no " + i.target.what + ", which is made")
			return a
		}
		made = a
	}
	made.ok, made.lacks, made.again = false, true, true
	made.text = fmt.Sprintf("%s is not there and cannot be made (%s): %s", i.target.what, made.text, i.target.how)
	return made
}
