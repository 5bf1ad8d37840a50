// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// A caller gets all that is wrong with a document at once, of its form and of its rules, and no value that it never sent.
func TestEverythingIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, message, doc string
		want               []string // the starts of the violations
	}{
		{"a field that is missing", "shapes.v1.Numbers", `{"aboveTen":12,"outside":9,"largeId":"18000000000000000000"}`, []string{"/mustCount: missing; value is required", "/positiveId: missing; must be greater than 0"}},
		{"null is missing", "shapes.v1.Numbers", `{"above_ten":null,"outside":9,"positive_id":0,"largeId":"18000000000000000000","mustCount":1}`, []string{"/aboveTen: missing; ", "/positiveId: must be greater than 0, found 0"}},
		{"in a list", "shapes.v1.Account", `{"displayName":"x","password":"long enough","state":1,"members":[{"displayName":"y","state":1}]}`, []string{"/members/0/password: missing; "}},
		{"a form and a rule", "shapes.v1.Account", `{"password":"short"}`, []string{"/displayName: wanted this field", "/password: ", "/state: wanted this field"}},
		{"a member that is unknown", "shapes.v1.Account", `{"password":"short","displayName":"x","state":1,"more":1}`, []string{"/more: wanted", "/password: "}},
		{"a value of an enum", "shapes.v1.Account", `{"password":"long enough","displayName":"x","state":"ON"}`, []string{`/state: wanted one of "STATE_UNSPECIFIED", "STATE_ON", "STATE_OFF" (did you mean "STATE_ON"?)`}},
		{"a rule that no keyword has", "shapes.v1.Texts", `{"shortName":"a","prefixed":"a.b","must":"x","slug":7,"hostPort":"-"}`, []string{"/hostPort: must be a valid host", "/slug: wanted"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := compiled(t, protoreflect.FullName(tt.message)).ToWire(nil, []byte(tt.doc))
			var refused *transcode.InputError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v", err)
			}
			var got []string
			for _, v := range refused.Violations {
				got = append(got, v.Path+": "+v.Message)
			}
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
