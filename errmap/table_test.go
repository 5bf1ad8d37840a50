// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/table.golden, docs/errors.md and docs/error-advice.md")

// Every code of the table has one row, every column of it is filled, and nothing is 0.
func TestRows(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	seen := make(map[Code]bool)
	for _, code := range Codes() {
		row, err := Lookup(code)
		if err != nil {
			t.Errorf("Lookup(%s): %v", code, err)
			continue
		}
		if seen[code] || !name.MatchString(string(code)) || row.Code != code {
			t.Errorf("%s: a second row, or no good name", code)
		}
		seen[code] = true
		if row.HTTP < 400 || row.HTTP > 599 {
			t.Errorf("%s: HTTP %d", code, row.HTTP)
		}
		if row.JSONRPC >= -32000 || row.JSONRPC < -32700 {
			t.Errorf("%s: JSON-RPC %d", code, row.JSONRPC)
		}
		if !isBackendCode(row.Connect) {
			t.Errorf("%s: Connect code %d", code, row.Connect)
		}
		if !validErrorType(row.ErrorType) || row.Message == "" || row.Retryable == 0 || row.Retryable.String() == "unknown" {
			t.Errorf("%s: incomplete row %+v", code, row)
		}
		for era, shown := range map[string]Shown{"modern": row.Modern, "legacy": row.Legacy} {
			if shown.Form < ProtocolError || shown.Form > Silent || shown.HTTP < 200 || shown.Code >= 0 {
				t.Errorf("%s: incomplete column MCP %s: %+v", code, era, shown)
			}
		}
	}
}

// Every code says what an operator does next, in whole sentences, and what a caller does with them does not reach the table.
func TestOperatorsAreAdvised(t *testing.T) {
	t.Parallel()
	flag := regexp.MustCompile(`--[a-z][a-z-]*`)
	settings, err := os.ReadFile(filepath.Join("..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range Codes() {
		row, err := Lookup(code)
		if err != nil {
			t.Fatal(err)
		}
		texts := row.ForOperators()
		if len(texts) == 0 {
			t.Errorf("%s has no advice", code)
		}
		for i, text := range texts {
			if len(text) < 20 || len(text) > 240 || !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is no sentence, or too long", code, text)
			}
			for _, name := range flag.FindAllString(text, -1) {
				if !strings.Contains(string(settings), "`"+name+"`") {
					t.Errorf("%s: there is no flag %s", code, name)
				}
			}
			texts[i] = "changed"
		}
		if again := row.ForOperators(); slices.Contains(again, "changed") {
			t.Errorf("%s: the advice was changed", code)
		}
	}
}

// The numbers of our own codes stand for one code each, in the canonical dialect.
func TestOwnNumbersAreUnique(t *testing.T) {
	t.Parallel()
	by := make(map[int]Code)
	for _, code := range Codes() {
		row, err := Lookup(code)
		if err != nil {
			t.Fatal(err)
		}
		if row.JSONRPC < -32099 {
			continue // a number of JSON-RPC itself represents several codes
		}
		if other, taken := by[row.JSONRPC]; taken {
			t.Errorf("%d is %s and %s", row.JSONRPC, other, code)
		}
		by[row.JSONRPC] = code
	}
}

func TestLookupUnknown(t *testing.T) {
	t.Parallel()
	for _, code := range []Code{"", "NOPE", "internal_error", "PARSE_ERROR ", Code(strings.Repeat("X", 1<<16))} {
		row, err := Lookup(code)
		if !errors.Is(err, ErrUnknownCode) || row != (Row{}) {
			t.Errorf("Lookup(%.20q) = %+v, %v", code, row, err)
		}
		if len(err.Error()) > 1024 {
			t.Errorf("the error of a long code has %d bytes", len(err.Error()))
		}
	}
}

// What a caller does with the codes or a row does not reach the table.
func TestTableIsCopied(t *testing.T) {
	t.Parallel()
	Codes()[0] = "CHANGED"
	if Codes()[0] != ParseError {
		t.Error("Codes hands out the table itself")
	}
}

// The table as it was reviewed. A change of a row is a change of the product's contract.
func TestTableGolden(t *testing.T) {
	t.Parallel()
	compare(t, filepath.Join("testdata", "table.golden"), renderGolden(t))
}

// docs/errors.md and docs/error-advice.md are the table.
func TestDocument(t *testing.T) {
	t.Parallel()
	compare(t, filepath.Join("..", "docs", "errors.md"), renderMarkdown(t))
	compare(t, filepath.Join("..", "docs", "error-advice.md"), renderOperators(t))
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test ./errmap -update rewrites it):\n%s", path, diff)
	}
}

func renderGolden(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, code := range Codes() {
		r, err := Lookup(code)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n\thttp %d\n\tjsonrpc %d\n", r.Code, r.HTTP, r.JSONRPC)
		fmt.Fprintf(&b, "\tmodern %s\n\tlegacy %s\n", goldenShown(r.Modern), goldenShown(r.Legacy))
		fmt.Fprintf(&b, "\tconnect %s\n\ttype %s\n\tmessage %s\n\tretryable %s\n", r.Connect, r.ErrorType, r.Message, r.Retryable)
		fmt.Fprintf(&b, "\tfixed %v, by backend %v, hop %v\n", r.Fixed, r.ByBackend, r.Hop)
	}
	b.WriteString("\nTOOL_EXECUTION_FAILED by the backend's code\n")
	for _, r := range backendRows {
		fmt.Fprintf(&b, "%d %s\n\thttp %d\n\ttype %s\n\tretryable %s\n", r.code, r.code, r.http, r.errorType, r.retry)
	}
	return b.String()
}

func goldenShown(s Shown) string {
	text := s.Form.String() + " " + strconv.Itoa(s.HTTP) + " " + strconv.Itoa(s.Code)
	if s.AltHTTP != 0 {
		text += " or " + strconv.Itoa(s.AltHTTP)
	}
	if s.Absent {
		text += " (cannot arise)"
	}
	return text
}

// TestExitCodes: each code has its own number, which is none of the shell's, of sysexits or of the commands' other ends; a tool's own
// failure is 1.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	taken := map[int]Code{}
	for _, code := range Codes() {
		row, err := Lookup(code)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case code == ToolExecutionFailed:
			if row.Exit != 1 {
				t.Errorf("%s: %d, want 1", code, row.Exit)
			}
		case row.Exit == 0: // 3, as for all canonical errors
		case row.Exit < 10 || row.Exit > 63:
			t.Errorf("%s: %d, want 10 to 63", code, row.Exit)
		case taken[row.Exit] != "":
			t.Errorf("%s and %s: both %d", taken[row.Exit], code, row.Exit)
		}
		taken[row.Exit] = code
	}
}
