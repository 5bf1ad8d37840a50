// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestFrontmatterIsJSON(t *testing.T) {
	t.Parallel()
	const head = "name: a\ndescription: b\n"
	for _, tt := range []struct{ name, yaml, json string }{
		{"the least", "", ""},
		{"texts", "license: Apache-2.0\nnote: \"1\"\nblock: |\n  x\n  y\n", `,"license":"Apache-2.0","note":"1","block":"x\ny\n"`},
		{"values", "n: 3\nf: -1.50\ne: 1e3\nyes: true\nnone: null\nempty:\n", `,"n":3,"f":-1.50,"e":1e3,"yes":true,"none":null,"empty":null`},
		{"a large number", "n: 12345678901234567890\n", `,"n":12345678901234567890`},
		{"a date is a text", "day: 2026-11-26\nat: 2026-11-26T10:00:00Z\n", `,"day":"2026-11-26","at":"2026-11-26T10:00:00Z"`},
		{"words of old YAML are texts", "a: yes\nb: off\n", `,"a":"yes","b":"off"`},
		{"nested", "metadata:\n  version: \"2.1\"\n  tags: [x, {y: z}]\n", `,"metadata":{"version":"2.1","tags":["x",{"y":"z"}]}`},
		{"keys", "1: a\ntrue: b\n\"q\\\"\": c\n", `,"1":"a","true":"b","q\"":"c"`},
		{"characters", "x: \"\\u263a \\x01\"\n", ",\"x\":\"\u263a \\u0001\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, ends := range []string{"---\n", "---", "--- \t\nbody\n---\n"} {
				got, err := parseFrontmatter([]byte("---\n" + head + tt.yaml + ends))
				if err != nil {
					t.Fatal(err)
				}
				if want := `{"name":"a","description":"b"` + tt.json + `}`; string(got.JSON) != want {
					t.Errorf("got %s\nwant %s", got.JSON, want)
				}
			}
		})
	}
	if got, err := parseFrontmatter([]byte("\ufeff---\r\nname: a\r\ndescription: b\r\n---\r\nx")); err != nil || got.Name != "a" || got.Description != "b" {
		t.Errorf("with a byte order mark and CR LF: %+v, %v", got, err)
	}
}

func TestFrontmatterThatIsRefused(t *testing.T) {
	t.Parallel()
	const head = "---\nname: a\ndescription: b\n"
	deep := "x: " + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "\n"
	for _, tt := range []struct{ name, file, want string }{
		{"none", "# A\n", "does not begin with a line"},
		{"empty file", "", "does not begin with a line"},
		{"behind an empty line", "\n---\n---\n", "does not begin with a line"},
		{"without an end", "---\nname: a\n", "does not end"},
		{"no UTF-8", "---\nname: \xff\n---\n", "not UTF-8"},
		{"no YAML", "---\n\tname: a\n---\n", "is no YAML"},
		{"no mapping", "---\n- name\n---\n", "is no mapping"},
		{"nothing in it", "---\n---\n", "is no mapping"},
		{"no name", "---\ndescription: b\n---\n", "has no name"},
		{"no description", "---\nname: a\n---\n", "has no description"},
		{"empty description", "---\nname: a\ndescription: \" \"\n---\n", "description in the frontmatter is empty"},
		{"a name that is a number", "---\nname: 12\ndescription: b\n---\n", "name in the frontmatter is no text"},
		{"a long description", "---\nname: a\ndescription: " + strings.Repeat("é", 1025) + "\n---\n", "has 1025 characters; the limit is 1024"},
		{"a reserved key", head + "metadata: {io.modelcontextprotocol/x: y}\n---\n", "is reserved"},
		{"an alias", head + "x: &a [1]\ny: *a\n---\n", "aliases are not supported"},
		{"a tag", head + "x: !mine 1\n---\n", "tag !mine is not supported"},
		{"bytes", head + "x: !!binary aGk=\n---\n", "is not supported"},
		{"a key twice", head + "x: 1\nx: 2\n---\n", "given twice"},
		{"a key that is a list", head + "[a]: 1\n---\n", "a key of the frontmatter is no text"},
		{"an octal number", head + "x: 0777\n---\n", "has no form in JSON"},
		{"a number with underscores", head + "x: 1_000\n---\n", "has no form in JSON"},
		{"infinity", head + "x: .inf\n---\n", "has no form in JSON"},
		{"nested deeply", head + deep + "---\n", "levels deep"},
		{"large", head + "x: " + strings.Repeat("y", 64<<10) + "\n---\n", "the limit is 65536"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseFrontmatter([]byte(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"a": true, "git-workflow": true, "x1-2": true, strings.Repeat("a", 64): true,
		strings.Repeat("a", 65): false, "A": false, "-a": false, "a-": false, "a--b": false, "a_b": false, "a.b": false, "ä": false, "a/b": false,
	} {
		_, err := parseFrontmatter([]byte("---\nname: \"" + name + "\"\ndescription: d\n---\n"))
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzFrontmatter: whatever is accepted is a JSON object with the name and the description.
func FuzzFrontmatter(f *testing.F) {
	for _, seed := range []string{
		skillMD("a"), "---\nname: a\ndescription: b\nx: [1, {y: *z}]\n---\n", "---\r\nname: a\r\n---", "---\n<<: {name: a}\ndescription: !!str 1\n---\n",
		"---\nname: a\ndescription: b\nx: &x {y: *x}\n---\n", "---\n? [a]\n: b\n---\n", "\ufeff---\n\n---", "---\nname: a\ndescription: >-\n  b\n\n  c\nf: 1e999\n---\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := parseFrontmatter(file)
		if err != nil {
			return
		}
		var object struct {
			Name        string `json:"name"`
			Description string `json:"description"`
		}
		if err := json.Unmarshal(got.JSON, &object); err != nil {
			t.Fatalf("%s: %v", got.JSON, err)
		}
		if object.Name != got.Name || object.Description != got.Description || got.Name == "" || got.Description == "" {
			t.Errorf("%s is not %+v", got.JSON, got)
		}
	})
}
