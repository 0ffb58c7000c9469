// SPDX-License-Identifier: Apache-2.0

// Package page has the files of the page that `radar serve` shows.
package page

import (
	"io/fs"
	"testing/fstest"
)

// Files are the page's, with index.html at its root.
func Files() fs.FS {
	return fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>radar</title><p>radar serves /api/v1: <a href=/api/v1/openapi.json>openapi.json</a>\n")}}
}
