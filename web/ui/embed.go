// Package ui is the browser app: its sources, and the built page as it goes into the binary. What is in
// dist beside .keep comes from the page's own build; a program compiled without it has no page.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var built embed.FS

// Dist is the built page with index.html at its root, or a tree without one if the page was not built.
func Dist() fs.FS {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // "dist" is a valid path, which is all that Sub asks
	}
	return dist
}
