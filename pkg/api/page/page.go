// SPDX-License-Identifier: Apache-2.0

// Package page has the files of the page that `radar serve` shows: HTML, a style sheet and ES modules, as
// browsers take them. Nothing is built. docs/design/0036-page.md says how it is made, and why.
package page

import (
	"embed"
	"io/fs"
)

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
