// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// maxReference bounds a reference, as the setting does.
const maxReference = 4096

// Parse reads a reference to descriptors on a server: https://host/path, with #sha256=DIGEST behind it to pin the content, or
// oci://host/repository@sha256:DIGEST. Without TLS is for loopback. The error does not repeat a URL.
func Parse(ref string, o Options) (source.Fetcher, error) {
	if len(ref) > maxReference {
		return nil, fmt.Errorf("a reference has at most %d bytes", maxReference)
	}
	if strings.HasPrefix(ref, artifactPrefix) {
		return parseArtifact(ref, o)
	}
	u, err := url.Parse(ref)
	if err != nil {
		return nil, errors.New("is no URL")
	}
	switch u.Scheme {
	case "https", "http":
		return parseResource(u, o)
	}
	return nil, fmt.Errorf("descriptors cannot be fetched by %q; use a file, a folder, https:// or oci://", u.Scheme)
}

// resource is a descriptor set that an HTTP server has.
type resource struct {
	url  *url.URL // without fragment
	pin  string   // the digest in hex; empty where the content may change
	opts Options
}

// pinPrefix is what a fragment begins with.
const pinPrefix = "sha256="

func parseResource(u *url.URL, o Options) (source.Fetcher, error) {
	fragment := u.Fragment
	switch {
	case u.Host == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("must not have a user or password: it would be in the log of every server and proxy")
	case !isSecure(u):
		return nil, errInsecure
	}
	r := &resource{url: u, opts: o}
	u.Fragment, u.RawFragment = "", ""
	if fragment == "" {
		return r, nil
	}
	digest, ok := strings.CutPrefix(fragment, pinPrefix)
	if raw, err := hex.DecodeString(digest); !ok || err != nil || len(raw) != sha256.Size {
		return nil, errors.New("the part behind # must be sha256= and 64 hexadecimal digits, as `sha256sum FILE` prints them")
	}
	r.pin = strings.ToLower(digest)
	return r, nil
}

// Name implements [source.Fetcher].
func (r *resource) Name() string { return "descriptor set " + shown(r.url) }

// ID implements [source.Fetcher].
func (r *resource) ID() string { return r.url.String() + "#" + pinPrefix + r.pin }

// maxTag bounds the ETags that are sent back.
const maxTag = 1024

// Fetch implements [source.Fetcher]. What is pinned cannot change, so it is fetched once.
func (r *resource) Fetch(ctx context.Context, tag string, most int) (*source.Fetched, error) {
	if tag != "" && tag == r.pin {
		return nil, nil
	}
	client, end, err := r.opts.client()
	if err != nil {
		return nil, err
	}
	defer end()
	known, err := r.opts.hostCredentials()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/octet-stream, */*;q=0.5")
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	if secret := known.of(r.url); secret != "" {
		request.Header.Set("Authorization", secret)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, cause(err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing is lost: the body was read
	if response.StatusCode == http.StatusNotModified && tag != "" {
		return nil, nil
	}
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response)
	}
	body, err := readBounded(response.Body, response.ContentLength, most)
	if err != nil {
		return nil, err
	}
	if err := r.check(body); err != nil {
		return nil, err
	}
	out := &source.Fetched{Sets: []source.FetchedSet{{Name: setName(r.url), Body: body}}, Tag: r.pin}
	if etag := response.Header.Get("ETag"); r.pin == "" && len(etag) <= maxTag {
		out.Tag = etag
	}
	return out, nil
}

// refusal says what the server answered in place of the content.
func refusal(response *http.Response) error {
	text := fmt.Sprintf("the server answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
		text += "; credentials of servers are in the file that --descriptors-credentials names"
	}
	return errors.New(text)
}

// check compares the content with its pin.
func (r *resource) check(body []byte) error {
	sum := sha256.Sum256(body)
	if digest := hex.EncodeToString(sum[:]); r.pin != "" && digest != r.pin {
		return fmt.Errorf("the content has the SHA-256 digest %s, and %s is pinned; review the content, then change the pin", digest, r.pin)
	}
	return nil
}

// readBounded reads a body of at most this many bytes. The size is what was announced, or negative.
func readBounded(from io.Reader, size int64, most int) ([]byte, error) {
	tooLarge := fmt.Errorf("it has more than %d bytes, the limit for one source (limits.max_descriptor_bytes)", most)
	if size > int64(most) {
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the response: %w", err)
	case len(body) > most:
		return nil, tooLarge
	}
	return body, nil
}

// setName is the name of the set for errors.
func setName(u *url.URL) string {
	if name := path.Base(u.Path); name != "." && name != "/" {
		return name
	}
	return "the response"
}
