// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/catalog/search"
)

// shop is a set of documents in which each has its rivals.
func shop() []search.Document {
	return []search.Document{
		{Name: "list_backups", Group: "admin", Inputs: []string{"parent", "page_size"}},
		{Name: "create_backup", Group: "admin", Inputs: []string{"parent", "backup_id"}},
		{Name: "delete_backup", Group: "admin", Inputs: []string{"name"}},
		{Name: "get_backup", Group: "admin", Inputs: []string{"name"}},
		{Name: "terminate_workflow", Group: "workflow", Text: "Ends it at once.", Inputs: []string{"workflow_id", "reason"}},
		{Name: "PublishMessage", Group: "topics", Notes: []string{"At most ten megabytes."}},
		{Name: "authenticate", Group: "auth", Inputs: []string{"user", "password"}},
		{Name: "set_state", Group: "machine", Values: []string{"STATE_HIBERNATING"}},
		{Name: "change_log", Group: "docs"},
		{Name: "Exec", Group: "tasks"},
		{Name: "DiskUsage", Group: "volumes", Remarks: []string{"Inodes that are taken."}},
		{Name: "Diff", Group: "layers", Types: []string{"CompareMounts"}},
	}
}

func TestSearchFinds(t *testing.T) {
	t.Parallel()
	x := search.New(shop())
	for _, tc := range []struct{ why, query, want string }{
		{"the name", "list_backups", "list_backups"},
		{"the words", "list backups", "list_backups"},
		{"another form of the word", "backups that are listed", "list_backups"},
		{"a synonym of the verb", "remove a backup", "delete_backup"},
		{"another one", "make a new backup", "create_backup"},
		{"a verb that is closer", "show a backup", "get_backup"},
		{"kill for terminate", "kill a workflow", "terminate_workflow"},
		{"camel case", "publish a message", "PublishMessage"},
		{"a missing letter", "teminate workflow", "terminate_workflow"},
		{"letters in the wrong order", "publihs mesage", "PublishMessage"},
		{"two errors in a long word", "authentcat", "authenticate"},
		{"the beginning of a word", "authent", "authenticate"},
		{"a phrase", "log in", "authenticate"},
		{"a field", "password", "authenticate"},
		{"prose", "ends at once", "terminate_workflow"},
		{"the note of a field", "megabytes", "PublishMessage"},
		{"the value of an enum", "hibernating", "set_state"},
		{"the note of a result", "inodes", "DiskUsage"},
		{"the name of a message", "mounts", "Diff"},
		{"use for usage", "how much is used", "DiskUsage"},
		{"difference for diff", "differences", "Diff"},
		{"run for exec", "run a command", "Exec"},
		{"two words in one", "changelog", "change_log"},
		{"capitals", "LIST BACKUPS", "list_backups"},
		{"punctuation", "\"list\", (backups)!", "list_backups"},
	} {
		found := x.Search(tc.query, 3, nil, nil)
		if len(found) == 0 || shop()[found[0].Doc].Name != tc.want {
			var got []string
			for _, hit := range found {
				got = append(got, shop()[hit.Doc].Name)
			}
			t.Errorf("%s: %q finds %v, want %s", tc.why, tc.query, got, tc.want)
		}
	}
}

// What a query wants done, and what in it only describes, decides between tools of one noun.
func TestSearchUnderstands(t *testing.T) {
	t.Parallel()
	docs := []search.Document{
		{Name: "create_job", Inputs: []string{"job", "labels"}},
		{Name: "get_job", Outputs: []string{"labels"}},
		{Name: "list_jobs"},
		{Name: "delete_job"},
		{Name: "cancel_job"},
		{Name: "set_job_labels"},
		{Name: "get_job_history", Summary: "Returns the events of a job."},
		{Name: "list_users", Summary: "Lists users with access to a file."},
		{Name: "check_access", Summary: "Says whether a user has access to a file."},
		{Name: "read_file"},
		{Name: "auth_enable"},
		{Name: "authenticate"},
		{Name: "create_report_schedule"},
		{Name: "get_report_schedule"},
	}
	x := search.New(docs)
	for _, tc := range []struct{ why, query, want string }{
		{"the verb decides", "erase a job and its history", "delete_job"},
		{"what is behind a preposition counts less", "history of a job", "get_job_history"},
		{"a word before an article is a verb", "label a job", "set_job_labels"},
		{"an opener is no verb", "how do I cancel a job", "cancel_job"},
		{"who asks for users", "who can see the file", "list_users"},
		{"a question wants a verdict", "is bob allowed to see the file", "check_access"},
		{"an abbreviation", "turn on authentication", "auth_enable"},
		{"a noun that is a verb here", "schedule daily reports", "create_report_schedule"},
		{"a noun wants to read", "schedule of a report", "get_report_schedule"},
	} {
		found := x.Search(tc.query, 3, nil, nil)
		if len(found) == 0 || docs[found[0].Doc].Name != tc.want {
			var got []string
			for _, hit := range found {
				got = append(got, docs[hit.Doc].Name)
			}
			t.Errorf("%s: %q finds %v, want %s", tc.why, tc.query, got, tc.want)
		}
	}
}

func TestSearchFindsNothing(t *testing.T) {
	t.Parallel()
	x := search.New(shop())
	for _, query := range []string{"", " ", "the of a", "zzzzzzzz", "!?", "\xff\xfe"} {
		if found := x.Search(query, 3, nil, nil); len(found) != 0 {
			t.Errorf("%q finds %v", query, found)
		}
	}
	if found := search.New(nil).Search("backup", 3, nil, nil); len(found) != 0 {
		t.Errorf("an empty index finds %v", found)
	}
	if found := x.Search("backup", 0, nil, nil); len(found) != 0 {
		t.Errorf("at most none: %v", found)
	}
}

// Only what may be seen is found, and it is found as well as if nothing else was there.
func TestSearchFindsWhatMayBeSeen(t *testing.T) {
	t.Parallel()
	x := search.New(shop())
	hidden := map[int]bool{0: true, 2: true}
	found := x.Search("list backups", 3, func(doc int) bool { return !hidden[doc] }, nil)
	if len(found) != 2 || slices.ContainsFunc(found, func(h search.Hit) bool { return hidden[h.Doc] }) {
		t.Errorf("%v", found)
	}
}

func TestHitsAreInOrder(t *testing.T) {
	t.Parallel()
	x := search.New(shop())
	for limit := 1; limit <= 10; limit++ {
		found := x.Search("backup of a workflow by name", limit, nil, nil)
		if len(found) > limit {
			t.Errorf("%d hits, at most %d", len(found), limit)
		}
		if !slices.IsSortedFunc(found, func(a, b search.Hit) int {
			switch {
			case a.Score > b.Score:
				return -1
			case a.Score < b.Score:
				return 1
			}
			return a.Doc - b.Doc
		}) {
			t.Errorf("%v", found)
		}
		again := x.Search("backup of a workflow by name", limit, nil, nil)
		if !slices.Equal(found, again) {
			t.Errorf("%v, then %v", found, again)
		}
	}
}

// A query that is too long is read as far as the bound, also where that is within a character.
func TestLongQuery(t *testing.T) {
	t.Parallel()
	x := search.New(shop())
	query := "backup " + strings.Repeat("é", search.MaxQueryBytes) + " workflow"
	found := x.Search(query, 10, nil, nil)
	for _, hit := range found {
		if name := shop()[hit.Doc].Name; !strings.Contains(name, "backup") {
			t.Errorf("a word behind the bound finds %s", name)
		}
	}
	if len(found) == 0 {
		t.Error("the word before the bound finds nothing")
	}
}

func FuzzSearch(f *testing.F) {
	x := search.New(shop())
	for _, seed := range []string{"list backups", "log in", "ÄÖÜ ß", "aa\xffbb", "SLOs JSONWebKeys v2beta1", "=backup", strings.Repeat("a b ", 300), "x's", "ation", "eeed", "ied"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		found := x.Search(query, 10, nil, nil)
		for _, hit := range found {
			if hit.Doc < 0 || hit.Doc >= x.Len() || hit.Score <= 0 {
				t.Errorf("%q: %+v", query, hit)
			}
		}
		// What callers write in capitals is the same, as far as letters have them.
		if upper := strings.ToUpper(query); utf8.ValidString(query) && strings.ToLower(upper) == query && len(query) < search.MaxQueryBytes && !strings.ContainsFunc(query, func(r rune) bool { return r >= 0x80 }) {
			if again := x.Search(upper, 10, nil, nil); len(again) == 0 && len(found) != 0 {
				t.Errorf("%q finds %v, and %q nothing", query, found, upper)
			}
		}
	})
}

// many is a set of documents as large catalogs have them.
func many(n int) []search.Document {
	verbs := []string{"list", "get", "create", "update", "delete", "restore", "check", "watch"}
	nouns := []string{"backup", "cluster", "table", "topic", "subscription", "policy", "instance", "view", "snapshot", "session", "schedule", "namespace", "bucket", "sink", "role"}
	kinds := []string{"", "regional", "global", "shared", "archived", "private", "public", "managed"}
	out := make([]search.Document, n)
	for i := range out {
		verb, noun, kind := verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)], kinds[i/len(verbs)/len(nouns)%len(kinds)]
		out[i] = search.Document{
			Name: fmt.Sprintf("%s_%s_%s", verb, kind, noun), Group: fmt.Sprintf("service%d", i/960),
			Text:   fmt.Sprintf("Calls %s on a %s %s of the project and returns it with all of its settings.", verb, kind, noun),
			Inputs: []string{"name", "parent", "page_size", "filter", noun + "_id", "labels", "update_mask", "request_id"},
			Notes:  []string{"The resource name of the " + noun + ".", "At most this many entries are returned."},
			Values: []string{"STATE_UNSPECIFIED", "STATE_READY", "STATE_CREATING"},
		}
	}
	return out
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{1_000, 11_000} {
		x := search.New(many(n))
		for _, query := range []string{"list backups of a cluster", "who can see this archived table", "delte a subscripton"} {
			b.Run(fmt.Sprintf("%d/%s", n, strings.ReplaceAll(query, " ", "_")), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					x.Search(query, 5, nil, nil)
				}
			})
		}
	}
}

func BenchmarkNew(b *testing.B) {
	docs := many(11_000)
	for b.Loop() {
		search.New(docs)
	}
}

// What is seen in part is not found by what it says of outputs.
func TestSearchWithoutOutputs(t *testing.T) {
	t.Parallel()
	x := search.New([]search.Document{
		{Name: "get_customer", Inputs: []string{"id"}, Outputs: []string{"passport"}, Remarks: []string{"Their blood group."}},
		{Name: "get_order", Inputs: []string{"id"}, Outputs: []string{"passport"}},
		{Name: "check_passport", Outputs: []string{"passport"}},
	})
	partial := func(doc int) bool { return doc != 1 }
	for query, want := range map[string][]int{"passport": {2, 1}, "blood": nil, "customer": {0}} {
		var got []int
		for _, hit := range x.Search(query, 3, nil, partial) {
			got = append(got, hit.Doc)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", query, got, want)
		}
		if len(x.Search(query, 3, nil, nil)) <= len(want) && query != "customer" {
			t.Errorf("%s: others do not find more", query)
		}
	}
}
