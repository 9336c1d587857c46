package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"cowrite/doc/code"
)

const (
	indexFile = "index.html"
	// hashedFiles are named after their content, so that a copy is good for ever.
	hashedFiles = "assets/"
)

// pagePolicy lets the page run its own scripts and WebAssembly, use its own styles, show its own pictures and those
// that a document carries in itself (others are shown as links), and talk to its own server, and nothing else. connect-src names the WebSocket schemes because not
// every browser counts them as 'self'.
const pagePolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; " +
	"img-src 'self' data:; font-src 'self'; connect-src 'self' ws: wss:; worker-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// notBuilt is shown by a program that was compiled without the page.
const notBuilt = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Cowrite</title></head>
<body>
<h1>Cowrite</h1>
<p>The server is running. This program was compiled without the browser app: <code>make build</code> builds both.</p>
<p>The API is under <code>/api/v1</code>; <a href="/openapi.json">/openapi.json</a> describes it.</p>
</body>
</html>
`

// pageFile is a file of the page in memory.
type pageFile struct {
	name   string
	kind   string // media type
	tag    string // ETag
	plain  []byte
	zipped func() []byte // made when first asked for; nil where it would save little
}

func newPageFile(name string, data []byte) *pageFile {
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	sum := sha256.Sum256(data)
	return &pageFile{
		name: name, kind: kind, tag: hex.EncodeToString(sum[:12]), plain: data,
		zipped: sync.OnceValue(func() []byte { return zip(data) }),
	}
}

// zip compresses, or gives nil where it saves less than a tenth.
func zip(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil || b.Len() > len(data)/10*9 {
		return nil
	}
	return b.Bytes()
}

// page serves the browser app: its files, and index.html for every other path, where the app reads the
// address itself.
func (s *Server) page() http.Handler {
	files, err := readPage(s.opts.PageFS)
	if err != nil {
		s.log.Error("page not served", "err", err)
	}
	index := files[indexFile]
	if index == nil {
		index = newPageFile(indexFile, []byte(notBuilt))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.refuse(w, r, methodNotAllowed(r.Method, []string{http.MethodGet}))
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		file := files[name]
		if file == nil && strings.HasPrefix(name, hashedFiles) {
			s.refuse(w, r, code.New(code.NotFound, "this file is not part of the page; it may be of another version"))
			return
		}
		if file == nil {
			file = index
		}
		serveFile(w, r, file)
	})
}

func serveFile(w http.ResponseWriter, r *http.Request, file *pageFile) {
	h := w.Header()
	h.Set("Content-Type", file.kind)
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(file.name, hashedFiles) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	data, tag := file.plain, file.tag
	if takesGzip(r) {
		if zipped := file.zipped(); zipped != nil {
			h.Set("Content-Encoding", "gzip")
			data, tag = zipped, tag+"-gzip"
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func takesGzip(r *http.Request) bool {
	for _, item := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		coding, params, _ := strings.Cut(item, ";")
		if strings.TrimSpace(coding) == "gzip" {
			q := strings.TrimSpace(params)
			return q != "q=0" && q != "q=0.0"
		}
	}
	return false
}

// readPage reads all files of the built page.
func readPage(page fs.FS) (map[string]*pageFile, error) {
	files := map[string]*pageFile{}
	if page == nil {
		return files, nil
	}
	err := fs.WalkDir(page, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		data, err := fs.ReadFile(page, name)
		if err != nil {
			return fmt.Errorf("read page file: %w", err)
		}
		files[name] = newPageFile(name, data)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return files, nil
}
