// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
)

// built are the parts of the page, each compressed as far as gzip can: that is further than the listener's compression goes, which
// has to be fast.
//
//go:embed built
var built embed.FS

// Path is where the page is; its parts are below.
const Path = "/console"

// policy lets the page load its own parts and talk to the sidecar, and nothing else: no script in a text of a backend can run.
// Images of results are data: and blob: URLs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// index is the document of every route of the page.
const index = "index.html"

// file is a part of the page.
type file struct {
	gzipped             []byte
	kind, tag, lifetime string
}

// Page returns the handler of the page, for GET and HEAD of [Path] and of all below it. The page has no secrets, so it is for
// everyone who reaches the listener. It is safe for concurrent use.
func Page() http.Handler {
	read := sync.OnceValue(func() map[string]file { return parts(built) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			h.Set(name, value)
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			say(w, http.StatusMethodNotAllowed, "use GET")
			return
		}
		part, ok := find(read(), r.URL.Path)
		if !ok {
			say(w, http.StatusNotFound, "the console has no such file; it begins at "+Path)
			return
		}
		h.Set("Content-Type", part.kind)
		h.Set("Cache-Control", part.lifetime)
		h.Set("ETag", part.tag)
		content := part.gzipped
		if h.Add("Vary", "Accept-Encoding"); takesGzip(r) {
			h.Set("Content-Encoding", "gzip")
		} else {
			content = part.content()
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}

// takesGzip reports whether a request wants its response whole, and takes it compressed.
func takesGzip(r *http.Request) bool {
	if r.Header.Get("Range") != "" {
		return false
	}
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";"); strings.EqualFold(name, "gzip") {
			return strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" || weight == ""
		}
	}
	return false
}

// content decompresses, for the few clients that do not take gzip.
func (f *file) content() []byte {
	// A buffer takes everything, and a test reads every part.
	var out bytes.Buffer
	if z, err := gzip.NewReader(bytes.NewReader(f.gzipped)); err == nil {
		_, _ = io.Copy(&out, z) //nolint:gosec // what the binary embeds
	}
	return out.Bytes()
}

// find returns the part for a path. Routes of the page give its document: those of tools and calls whatever they are named, and
// others unless they look like a file.
func find(from map[string]file, at string) (file, bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(at, Path), "/")
	part, ok := from[name]
	if !ok && (!strings.Contains(name, ".") || strings.HasPrefix(name, "try/") || strings.HasPrefix(name, "live/")) {
		part, ok = from[index]
	}
	return part, ok
}

// parts reads the parts of the page from the folder built. A file whose name has a hash of its content never changes.
func parts(from fs.FS) map[string]file {
	out := map[string]file{}
	hashed := regexp.MustCompile(`-[A-Z0-9]{8}\.[a-z0-9]+$`)
	// An embedded folder can be read, and a test reads all of it.
	_ = fs.WalkDir(from, "built", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, at)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		name := strings.TrimSuffix(strings.TrimPrefix(at, "built/"), ".gz")
		part := file{
			gzipped: content, kind: kindOf(name), lifetime: "no-cache",
			tag: `W/"` + hex.EncodeToString(sum[:16]) + `"`, // weak: the response may be compressed
		}
		if hashed.MatchString(name) {
			part.lifetime = "public, max-age=31536000, immutable"
		}
		out[name] = part
		return nil
	})
	return out
}

// kindOf is the content type of a file. It does not depend on the files of the system, as that of package mime does.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".txt":
		return "text/plain; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".json":
		return "application/json"
	}
	return "application/octet-stream"
}

// say answers with a sentence.
func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// The client has gone if this fails.
	_, _ = io.WriteString(w, text+"\n")
}
