// SPDX-License-Identifier: Apache-2.0

// Package v1 is version 1 of radar's HTTP API, which `radar serve` has: every question of the command line, events as
// they come, and the management of INT, described by OpenAPI 3.1 that is made of this code (docs/design/0035-api.md).
package v1

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"regexp"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/api/live"
	"github.com/vnetradar/radar/pkg/fault"
)

// Listeners is how many may follow events of a server with the API.
const Listeners = 256

// Base is where the API's paths begin.
const Base = "/api/v1"

// Config says what is served.
type Config struct {
	Version string // of radar
	Default string // domain that is asked for if nothing else is
	// Files are capture files with reports, and recordings, by the name of the domain that each is shown as.
	Files map[string]answer.File
	Page  fs.FS // what is served at /
	// Live is what the collector of this process finds; nil: none runs here.
	Live  *api.Reports
	TLS   bool
	Guard *api.Guard
	Face  fault.Face
	Log   *slog.Logger
}

// API answers.
type API struct {
	Config
	server  *api.Server
	feeds   *live.Feeds
	answers *answers
	texts   *expressions
	huma    huma.API
}

// Serve adds the API and the page to a server. Listeners' streams end with ctx.
func Serve(ctx context.Context, s *api.Server, c Config) *API {
	a := &API{Config: c, server: s, feeds: live.New(ctx, c.Face), answers: newAnswers(), texts: newExpressions()}
	mux := http.NewServeMux()
	a.huma = humago.New(mux, describe(c.Version))
	a.register()
	s.Answer(Base+"/", within(workTime, mux))
	for _, path := range []string{"/events", "/values/events"} {
		s.Listen("GET "+Base+"/domains/{domain}"+path, mux)
	}
	a.serveMetrics()
	if c.Page != nil {
		s.Answer("/", pageOf(c.Page))
	}
	return a
}

// pageOf serves the page's files. They change with radar only, so that browsers ask again each time.
func pageOf(files fs.FS) http.Handler {
	serve := http.FileServerFS(files)
	scripts := inlineScripts(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			api.Refuse(w, http.StatusMethodNotAllowed, "the page can only be read")
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		if r.URL.Path == "/" {
			api.AllowScripts(w, scripts...)
		}
		serve.ServeHTTP(w, r)
	})
}

var inlineScript = regexp.MustCompile(`(?s)<script>(.*?)</script>`)

// inlineScripts are the texts of the scripts that stand in index.html itself.
func inlineScripts(files fs.FS) (texts []string) {
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return nil // files without a page
	}
	for _, m := range inlineScript.FindAllStringSubmatch(string(index), -1) {
		texts = append(texts, m[1])
	}
	return texts
}

// OpenAPI is the description of the API, as it is kept in docs/openapi.json.
func OpenAPI() ([]byte, error) {
	a := &API{answers: newAnswers()}
	a.huma = humago.New(http.NewServeMux(), describe("1"))
	a.register()
	return a.huma.OpenAPI().MarshalJSON()
}

func describe(version string) huma.Config {
	c := huma.DefaultConfig("radar", version)
	c.Info.Description = "Packets of virtual networks: paths, latency, losses, as they come; and the management of INT. " +
		"Reading takes no token on 127.0.0.1. Whatever steers does, and so does all on any other address."
	c.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = Base+"/openapi", "", ""
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", nameOf)
	c.CreateHooks = nil // bodies have no links to schemas
	c.RejectUnknownQueryParameters = true
	c.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	return c
}

// register adds all operations.
func (a *API) register() {
	a.registerServer()
	a.registerTopology()
	a.registerQuestions()
	a.registerPackets()
	a.registerPacket()
	a.registerHistogram()
	a.registerStatus()
	a.registerEvents()
	a.registerValues()
	a.registerIntents()
	a.registerManagement()
}

// operation is a GET of a path below Base.
func operation(id, path, summary string, more ...int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: Base + path, Summary: summary,
		Errors: append([]int{http.StatusUnauthorized, http.StatusServiceUnavailable}, more...),
	}
}

// ofDomain is a GET of a path below that of a domain.
func ofDomain(id, path, summary string) huma.Operation {
	o := operation(id, "/domains/{domain}"+path, summary, http.StatusNotFound, http.StatusUnprocessableEntity)
	return o
}
