// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// OneDomain is the path of everything that is about one domain.
type OneDomain struct {
	Domain string `path:"domain" maxLength:"64" doc:"a domain's name, as /domains lists it" example:"default"`

	asked string
}

// Resolve notes what was asked, so that the same questions get the same answer.
func (o *OneDomain) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	o.asked = u.Path + "?" + u.Query().Encode()
	return nil
}

// Filters are the filters by what packets are.
type Filters struct {
	Src    []string `query:"src,explode" maxItems:"32" doc:"source address or prefix, or a node: any address that it owns" example:"[\"10.0.1.0/24\"]"`
	Dst    []string `query:"dst,explode" maxItems:"32" doc:"destination address or prefix, or a node"`
	Proto  []string `query:"proto,explode" maxItems:"32" doc:"tcp, udp, icmp, icmpv6, or a number" example:"[\"udp\"]"`
	Sport  []string `query:"sport,explode" maxItems:"32" doc:"source port, or a range such as 1000-2000"`
	Dport  []string `query:"dport,explode" maxItems:"32" doc:"destination port, or a range"`
	Node   []string `query:"node,explode" maxItems:"32" doc:"node that the packet visited"`
	State  []string `query:"state,explode" maxItems:"32" doc:"delivered, lost, left, in_flight, expired or ignored"`
	Filter string   `query:"filter" maxLength:"1024" doc:"an expression in tcpdump's language (docs/filters.md), with addresses, nodes and numbers: other names are not looked up. It joins 64 tests at most" example:"udp and dst port 53"`
}

// times are the filters by when packets were sent.
type Times struct {
	Last  uint32 `query:"last" doc:"only the newest N packets; 0: all"`
	Since string `query:"since" maxLength:"64" doc:"only packets sent since then: a duration (5m), a time of today (15:04:05) or a time of RFC 3339"`
	Until string `query:"until" maxLength:"64" doc:"only packets sent before then: as since"`
}

// fieldError is about one field of a request.
func fieldError(where string, value any, format string, args ...any) error {
	return huma.Error422UnprocessableEntity("a parameter cannot be used", &huma.ErrorDetail{
		Message: fmt.Sprintf(format, args...), Location: where, Value: value,
	})
}

// selection is what they choose.
func (a *API) selection(ctx context.Context, f *Filters, domainName string) (*answer.Selection, error) {
	if err := statedir.CheckDomain(domainName); err != nil {
		return nil, noDomain(err.Error())
	}
	list := func(values []string) string { return strings.Join(values, ",") }
	parts := func(values []string) []string { // "a,b" and "c" are three
		if len(values) == 0 {
			return nil
		}
		return strings.Split(list(values), ",")
	}
	addressesOf := a.addressesOf(ctx, domainName)
	addresses := map[string][]string{"src": parts(f.Src), "dst": parts(f.Dst)}
	for name, values := range addresses {
		found, err := addressesOf(values)
		if err != nil {
			return nil, a.refused(err, "query."+name, list(values))
		}
		addresses[name] = found
	}
	s, err := answer.Select(filter.Spec{
		Src: list(addresses["src"]), Dst: list(addresses["dst"]), Proto: list(f.Proto),
		Sport: list(f.Sport), Dport: list(f.Dport), Node: list(f.Node), State: list(f.State),
	})
	if err != nil {
		return nil, fieldError(fieldOf(err), nil, "%v", err)
	}
	if f.Filter == "" {
		return s, nil
	}
	if err := filter.CheckBounds(f.Filter); err != nil { // before each of its names is looked for
		return nil, fieldError("query.filter", f.Filter, "%v", err)
	}
	text, err := answer.WithAddresses(f.Filter, addressesOf)
	if err != nil {
		return nil, a.refused(err, "query.filter", f.Filter)
	}
	e, err := a.texts.of(ctx, api.ClientOf(ctx), text)
	if err == nil {
		err = s.NarrowBy(e)
	}
	if not, ok := errors.AsType[*notCompiled](err); ok {
		return nil, later(not.Error())
	}
	switch {
	case errors.Is(err, filter.ErrNotBuilt):
		return nil, huma.Error501NotImplemented(err.Error())
	case err != nil:
		return nil, fieldError("query.filter", f.Filter, "%v", err)
	}
	return s, nil
}

// fieldOf is the parameter that an error of answer.Select names first.
func fieldOf(err error) string {
	name, _, _ := strings.Cut(err.Error(), " ")
	if slices.Contains([]string{"src", "dst", "proto", "sport", "dport", "node", "state"}, name) {
		return "query." + name
	}
	return "query"
}

// addressesOf puts the addresses of nodes in the place of their names, for one request, until ctx ends.
func (a *API) addressesOf(ctx context.Context, domainName string) func(values []string) ([]string, error) {
	of := answer.OwnersOf(domainName).AddressesOf
	if f := a.Files[domainName]; f != nil {
		of = f.AddressesOf
	}
	return func(values []string) ([]string, error) {
		if ctx.Err() != nil {
			return nil, later("the names of nodes are not looked up: it takes too long")
		}
		return of(values)
	}
}

// now is what times of a domain count from.
func (a *API) now(domainName string) time.Time {
	if f := a.Files[domainName]; f != nil {
		return f.Now()
	}
	return time.Now()
}

// limit adds the times to a selection.
func (t *Times) limit(s *answer.Selection, now time.Time) (err error) {
	s.Last = int(t.Last)
	if t.Since != "" {
		if s.Since, err = answer.ParseTime(t.Since, now); err != nil {
			return fieldError("query.since", t.Since, "%v", err)
		}
	}
	if t.Until != "" {
		if s.Until, err = answer.ParseTime(t.Until, now); err != nil {
			return fieldError("query.until", t.Until, "%v", err)
		}
		if !s.Since.Before(s.Until) {
			return fieldError("query.until", t.Until, "lies before since")
		}
	}
	return nil
}

// refused is an error for who asked, where it is about the request; where is the field that it would be about.
func (a *API) refused(err error, where string, value any) error {
	if none, ok := errors.AsType[*answer.NoAddress](err); ok {
		return fieldError(where, value, "node %q owns no address", none.Node)
	}
	if no, ok := errors.AsType[*answer.NoSuchNode](err); ok {
		if no.Domain == "" {
			return fieldError(where, value, "no node %q: the nodes of reports are called int-ID, or as the collector was told", no.Name)
		}
		return fieldError(where, value, "domain %s has no node %q, its nodes are %s", no.Domain, no.Name, strings.Join(no.Nodes, ", "))
	}
	if errors.Is(err, system.ErrNotAttached) {
		return noDomain(a.Face.Render(err.Error())) // as the command line says it, with how to go on
	}
	return err
}

func noDomain(text string) error {
	return huma.NewError(http.StatusNotFound, "no such domain", &huma.ErrorDetail{Message: text, Location: "path.domain"})
}

// open opens what there is of a domain for read.
func (a *API) open(name string, s *answer.Selection, read func(*answer.Sources) ([]answer.Note, error)) ([]answer.Note, error) {
	if err := statedir.CheckDomain(name); err != nil {
		return nil, noDomain(err.Error())
	}
	if f := a.Files[name]; f != nil {
		sources, notes, err := f.Open(s)
		if err != nil {
			return nil, a.refused(err, "query.node", s.Nodes())
		}
		more, err := read(sources)
		return append(notes, more...), err
	}
	sources, notes, err := answer.Open(name, s)
	if err != nil {
		return notes, a.refused(err, "query.node", s.Nodes())
	}
	defer sources.Close()
	more, err := read(sources)
	notes = append(notes, more...)
	return append(notes, sources.Late()...), err
}
