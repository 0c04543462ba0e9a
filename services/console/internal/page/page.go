// Package page is the console's front page: built into the binary, without scripts and without anything from elsewhere.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"time"
)

//go:embed index.html
var indexText string

//go:embed style.css
var styleText string

// policy lets the page load its own style sheet and nothing else.
const policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page is the front page of one process.
type Page struct {
	files map[string]file
}

// file is one answer, ready to send.
type file struct {
	contentType string
	body        []byte
	tag         string
}

// New is the page as a console of that version shows it.
func New(version string) (*Page, error) {
	text, err := template.New("index").Parse(indexText)
	if err != nil {
		return nil, fmt.Errorf("parse the front page: %w", err)
	}
	var index bytes.Buffer
	if err := text.Execute(&index, struct{ Version string }{version}); err != nil {
		return nil, fmt.Errorf("fill in the front page: %w", err)
	}
	return &Page{files: map[string]file{
		"/":          newFile("text/html; charset=utf-8", index.Bytes()),
		"/style.css": newFile("text/css; charset=utf-8", []byte(styleText)),
	}}, nil
}

func newFile(contentType string, body []byte) file {
	sum := sha256.Sum256(body)
	return file{contentType: contentType, body: body, tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// Serve answers a GET or HEAD for one of the page's paths; false means that the path is none of them and nothing was
// written. Browsers ask again each time, and mostly learn that nothing has changed.
func (p *Page) Serve(w http.ResponseWriter, r *http.Request) bool {
	f, found := p.files[r.URL.Path]
	if !found {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	h.Set("Etag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
	return true
}
