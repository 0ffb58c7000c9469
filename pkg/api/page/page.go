// SPDX-License-Identifier: Apache-2.0

// Package page has the files of the page that `radar serve` shows: HTML with a script that loads the bundle, and the
// bundle, which esbuild makes of src: scripts, libraries, style sheets. docs/design/0036-page.md says how the page is
// made, 0046-page-bundle.md why it is one bundle.
package page

import (
	"embed"
	"io/fs"
)

//go:generate go tool esbuild src/main.js --bundle --minify --format=iife --global-name=radar --loader:.css=text --target=chrome116,firefox124,safari17.4 --charset=utf8 --legal-comments=none --log-level=warning --outfile=static/assets/page.js

//go:embed static
var static embed.FS

// Files are the page's, with index.html at its root.
func Files() fs.FS {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the name is a constant
	}
	return files
}
