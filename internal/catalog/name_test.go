// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"pgregory.net/rapid"
)

func TestSnakeCase(t *testing.T) {
	t.Parallel()
	for ident, want := range map[string]string{
		"GetFeature":     "get_feature",
		"RouteGuide":     "route_guide",
		"GetHTTPInfo":    "get_http_info",
		"HTTPInfo":       "http_info",
		"InfoHTTP":       "info_http",
		"GetV2Item":      "get_v2_item",
		"List2Things":    "list2_things",
		"SayHello1":      "say_hello1",
		"UTF8Encode":     "utf8_encode",
		"X":              "x",
		"ABC":            "abc",
		"aB":             "a_b",
		"get_feature":    "get_feature",
		"Get_Feature":    "get_feature",
		"Get__Feature":   "get__feature",
		"_Private":       "_private",
		"Trailing_":      "trailing_",
		"_":              "_",
		"SCREAMING_CASE": "screaming_case",
		"S3Bucket":       "s3_bucket",
		"getS3":          "get_s3",
	} {
		if got := snakeCase(ident); got != want {
			t.Errorf("snakeCase(%q) = %q, want %q", ident, got, want)
		}
	}
}

func TestHumanName(t *testing.T) {
	t.Parallel()
	for ident, want := range map[string]string{
		"GetFeature":  "Get feature",
		"GetHTTPInfo": "Get HTTP info",
		"HTTPInfo":    "HTTP info",
		"get_feature": "Get feature",
		"GetV2Item":   "Get V2 item",
		"_":           "_",
		"X":           "X",
	} {
		if got := humanName(ident); got != want {
			t.Errorf("humanName(%q) = %q, want %q", ident, got, want)
		}
	}
}

func TestMCPNameIsCutAt64(t *testing.T) {
	t.Parallel()
	exact := "a." + strings.Repeat("b", 62)
	if got := MCPName(exact); got != "a_"+strings.Repeat("b", 62) {
		t.Errorf("a name of 64 characters became %q", got)
	}
	long := "a." + strings.Repeat("b", 63)
	sum := sha256.Sum256([]byte(long))
	want := "a_" + strings.Repeat("b", 53) + "_" + hex.EncodeToString(sum[:4])
	if got := MCPName(long); got != want || len(got) != 64 {
		t.Errorf("MCPName(%q) = %q, want %q", long, got, want)
	}
	if MCPName(long+"c") == MCPName(long+"d") {
		t.Error("two long names that differ at their end have one MCP name")
	}
}

// canonicalPattern is the contract's pattern, against which the hand-written check is compared.
var canonicalPattern = regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)+$`)

// identifier draws Protobuf identifiers.
func identifier() *rapid.Generator[string] {
	return rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_]{0,40}`)
}

func TestNamesHoldTheirPatterns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		canonical := canonicalOf(t, identifier().Draw(t, "service"), identifier().Draw(t, "method"))
		if !canonicalPattern.MatchString(canonical) || !IsCanonicalName(canonical) {
			t.Fatalf("canonical name %q breaks its pattern", canonical)
		}
		mcp := MCPName(canonical)
		if !regexp.MustCompile(`^[a-z0-9_]{1,64}$`).MatchString(mcp) {
			t.Fatalf("MCP name %q breaks its pattern", mcp)
		}
		if snakeCase(canonical) != canonical {
			t.Fatalf("%q is not stable under snakeCase", canonical)
		}
	})
}

// canonicalOf asks a real descriptor, so that CanonicalName is what is tested.
func canonicalOf(t *rapid.T, service, method string) string {
	f := rpcFile("x.proto", "x", service+"/"+method)
	// A service may not share its name with a message.
	for _, m := range f.GetMessageType() {
		if m.GetName() == service {
			t.Skip("taken name")
		}
	}
	files, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{f}})
	if err != nil {
		t.Fatalf("descriptor: %v", err)
	}
	fd, err := files.FindFileByPath("x.proto")
	if err != nil {
		t.Fatal(err)
	}
	return CanonicalName(fd.Services().Get(0).Methods().Get(0))
}

func FuzzIsCanonicalName(f *testing.F) {
	for _, seed := range []string{"a.b", "route_guide.get_feature", "", ".", "a", "a.", ".a", "a..b", "A.b", "a.b.c", "a.b\n", "a.ü", "0._"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := IsCanonicalName(name), canonicalPattern.MatchString(name); got != want {
			t.Errorf("IsCanonicalName(%q) = %v, the pattern says %v", name, got, want)
		}
	})
}

func FuzzSnakeCase(f *testing.F) {
	for _, seed := range []string{"GetHTTPInfo", "_", "A1B2c3", "a__B", "ABCdef"} {
		f.Add(seed)
	}
	valid := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	f.Fuzz(func(t *testing.T, ident string) {
		if !valid.MatchString(ident) {
			t.Skip()
		}
		got := snakeCase(ident)
		if !regexp.MustCompile(`^[a-z0-9_]+$`).MatchString(got) {
			t.Errorf("snakeCase(%q) = %q", ident, got)
		}
		if a, b := strings.ReplaceAll(got, "_", ""), strings.ToLower(strings.ReplaceAll(ident, "_", "")); a != b {
			t.Errorf("snakeCase(%q) = %q lost or gained letters", ident, got)
		}
	})
}
