// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestClientsOfReleases compares what each release answered its clients, on every edge and in every era, with what is answered now.
// TestWire makes sure that testdata/wire.txt is what is answered now. An answer may have more members, and other texts.
func TestClientsOfReleases(t *testing.T) {
	t.Parallel()
	present, err := os.ReadFile(filepath.Join("testdata", "wire.txt"))
	if err != nil {
		t.Fatal(err)
	}
	now := exchangesOf(string(present))
	files, err := filepath.Glob("../testdata/releases/*/wire.txt.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no release is on record (%v)", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			then := exchangesOf(unzipped(t, file))
			compared := 0
			for _, name := range slices.Sorted(maps.Keys(then)) {
				asked, answered := cutExchange(then[name])
				asksNow, answersNow := cutExchange(now[name])
				if asked != asksNow {
					continue // the record asks something else by that name now
				}
				compared++
				for _, difference := range breaks(answered, answersNow) {
					t.Errorf("%s: %s", name, difference)
				}
			}
			if compared < len(then)*9/10 {
				t.Errorf("%d of %d exchanges are compared; those of a release stay on record", compared, len(then))
			}
		})
	}
}

func unzipped(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(io.LimitReader(z, 16<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cutExchange divides an exchange into the lines that were sent and those that came.
func cutExchange(text string) (asked, answered string) {
	var is, was strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "> ") {
			is.WriteString(line)
		} else {
			was.WriteString(line)
		}
	}
	return is.String(), was.String()
}

var (
	statuses = regexp.MustCompile(`(?mi)^(?:HTTP/\S+ \d+|:status: \d+|Content-Type: [\w/+.-]+|Grpc-Status: \d+|.*Grpc-Status: ?\d+)`)
	bodies   = regexp.MustCompile(`(?m)^(?:data: ?)?([{\[].*)$`)
)

// breaks are the differences between two answers that a client of the first would notice.
func breaks(then, now string) []string {
	var out []string
	if was, is := statuses.FindAllString(then, -1), statuses.FindAllString(now, -1); !slices.Equal(was, is) {
		out = append(out, fmt.Sprintf("%q was answered, now it is %q", was, is))
	}
	was, is := bodies.FindAllStringSubmatch(then, -1), bodies.FindAllStringSubmatch(now, -1)
	if len(was) != len(is) {
		return append(out, fmt.Sprintf("%d JSON messages came, now it is %d", len(was), len(is)))
	}
	for i := range was {
		var before, after any
		if json.Unmarshal([]byte(was[i][1]), &before) != nil {
			continue // cut by the record, or bytes that look like it
		}
		if err := json.Unmarshal([]byte(is[i][1]), &after); err != nil {
			out = append(out, fmt.Sprintf("no JSON: %v", err))
			continue
		}
		out = append(out, lost("", before, after)...)
	}
	return out
}

// texts are members that people read. They may be said in other words.
var texts = []string{"description", "title", "instructions", "text", "message", "error_message", "explanation", "fingerprint", "version", "digest"}

// lost are the paths at which a value of a release is missing or another one.
func lost(path string, before, after any) []string {
	switch before := before.(type) {
	case map[string]any:
		object, ok := after.(map[string]any)
		if !ok {
			return []string{path + " was an object"}
		}
		var out []string
		for _, name := range slices.Sorted(maps.Keys(before)) {
			value, ok := object[name]
			switch _, isText := value.(string); {
			case !ok:
				out = append(out, path+"/"+name+" is missing")
			case isText && slices.Contains(texts, name):
			case name == "value" && before["debug"] != nil: // of an error's detail in Connect: debug has the same, to be read
			default:
				out = append(out, lost(path+"/"+name, before[name], value)...)
			}
		}
		return out
	case []any:
		list, ok := after.([]any)
		if !ok || len(list) < len(before) {
			return []string{fmt.Sprintf("%s had %d elements", path, len(before))}
		}
		var out []string
		for i := range before {
			out = append(out, lost(fmt.Sprintf("%s/%d", path, i), before[i], list[i])...)
		}
		return out
	default:
		if before != after {
			return []string{fmt.Sprintf("%s was %v, now it is %v", path, before, after)}
		}
		return nil
	}
}

// TestBreaks: what is a difference for a client, and what is none.
func TestBreaks(t *testing.T) {
	t.Parallel()
	const then = "HTTP/1.1 200 OK\nContent-Type: application/json\n\n{\"a\":{\"b\":[1,\"x\"],\"title\":\"T\"}}\n"
	for name, tt := range map[string]struct{ old, by, want string }{
		"nothing":          {"", "", ""},
		"another text":     {`"T"`, `"U"`, ""},
		"one more member":  {`"title"`, `"c":null,"title"`, ""},
		"one more element": {`,"x"`, `,"x",2`, ""},
		"a missing member": {`"b":[1,"x"],`, ``, "/a/b is missing"},
		"another value":    {`"x"`, `"y"`, "/a/b/1 was x, now it is y"},
		"another type":     {`[1,"x"]`, `{}`, "/a/b had 2 elements"},
		"a text that goes": {`"T"`, `null`, "/a/title was T, now it is <nil>"},
		"a shorter list":   {`,"x"`, ``, "/a/b had 2 elements"},
		"another status":   {"200 OK", "400 Bad Request", `["HTTP/1.1 200" "Content-Type: application/json"] was answered, now it is ["HTTP/1.1 400" "Content-Type: application/json"]`},
		"no message":       {`{"a":{"b":[1,"x"],"title":"T"}}`, ``, "1 JSON messages came, now it is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(breaks(then, strings.Replace(then, tt.old, tt.by, 1)), "; "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
