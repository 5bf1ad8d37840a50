// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// Selection uses globs to decide which methods become tools. The zero value (and nil) selects every method of every
// service except infrastructure.
//
// A glob has one of three forms, distinguished by its shape:
//
//   - With a slash, it matches a method: "shop.v1.Orders/Get*", "*.Orders/*", "/shop.v1.Orders/Get". A leading slash is
//     ignored, so that an RPC's path can be pasted.
//   - Without a slash, it is compared with the service's full name ("shop.v1.*", "shop.v1.Orders") and with the tool's
//     names in both forms ("orders.get_*", "orders_get_*"). A match with any of them selects the method.
//
// A native tool is matched like a method. Its service is the first part of its canonical name, and its method is its
// declared name ("weather_desk/getForecast", "weather_desk").
//
// "*" matches any run of characters except "/", so it spans the dots of a package. "?" matches one such character,
// "[a-z]" matches one of a class, and a backslash makes the next character literal. Matching is case-sensitive.
//
// A method is a tool if an include glob matches it, or there are none, and no exclude glob does. Exclude wins.
type Selection struct {
	include, exclude []glob
}

// glob is one compiled pattern.
type glob struct {
	pattern string
	ofMethod,
	isLiteral bool
}

// NewSelection compiles the globs. The error joins one error for every malformed glob.
func NewSelection(include, exclude []string) (*Selection, error) {
	in, errIn := compileGlobs("include", include)
	ex, errEx := compileGlobs("exclude", exclude)
	if err := errors.Join(errIn, errEx); err != nil {
		return nil, err
	}
	return &Selection{include: in, exclude: ex}, nil
}

func compileGlobs(flag string, patterns []string) ([]glob, error) {
	var errs []error
	out := make([]glob, 0, len(patterns))
	for _, p := range patterns {
		pattern := strings.TrimPrefix(strings.TrimSpace(p), "/")
		_, err := path.Match(pattern, "")
		switch {
		case pattern == "":
			errs = append(errs, fmt.Errorf("%s glob %q is empty", flag, p))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s glob %q is malformed: a class or an escape does not end", flag, p))
		case strings.Count(pattern, "/") > 1:
			errs = append(errs, fmt.Errorf("%s glob %q has more than one slash: a method is pkg.Service/Method", flag, p))
		default:
			service, _, ofMethod := strings.Cut(pattern, "/")
			out = append(out, glob{
				pattern: pattern, ofMethod: ofMethod,
				isLiteral: !strings.ContainsAny(service, `*?[\`),
			})
		}
	}
	return out, errors.Join(errs...)
}

// matches compares the glob with a method, given by its service, "pkg.Service/Method" and names. Among the names of a
// native tool may be those of the RPC behind it, which have a slash of their own.
func (g glob) matches(service, method string, names ...string) bool {
	subject := service
	if g.ofMethod {
		subject = method
	}
	if matchGlob(g.pattern, subject) {
		return true
	}
	for _, n := range names {
		if matchGlob(g.pattern, n) {
			return true
		}
	}
	return false
}

// matchGlob is path.Match for a pattern that was found well-formed.
func matchGlob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// takes reports whether the method becomes a tool. A method's names may be more than one: the derived and the declared.
func (s *Selection) takes(service, method string, names ...string) bool {
	if s == nil {
		return true
	}
	for _, g := range s.exclude {
		if g.matches(service, method, names...) {
			return false
		}
	}
	for _, g := range s.include {
		if g.matches(service, method, names...) {
			return true
		}
	}
	return len(s.include) == 0
}

// namesService reports whether an include glob names the service without a wildcard, which is how a service that is
// left out by default comes in.
func (s *Selection) namesService(service string) bool {
	if s == nil {
		return false
	}
	for _, g := range s.include {
		of, _, _ := strings.Cut(g.pattern, "/")
		if g.isLiteral && of == service {
			return true
		}
	}
	return false
}

// Skips reports whether no method of the service can become a tool, so that its descriptors need not be requested.
// This is certain if the service is infrastructure that was not named, if an exclude glob covers all of it, or if no
// include glob can match. A glob that could be a tool's name could match any service, because names can be declared.
func (s *Selection) Skips(service string) bool {
	if source.IsInfrastructure(service) && !s.namesService(service) {
		return true
	}
	if s == nil {
		return false
	}
	mayMatch := func(g glob) bool {
		of, _, _ := strings.Cut(g.pattern, "/")
		return matchGlob(of, service) || !g.ofMethod && !hasUpper(g.pattern)
	}
	if len(s.include) > 0 && !slices.ContainsFunc(s.include, mayMatch) {
		return true
	}
	for _, g := range s.exclude {
		of, method, ofMethod := strings.Cut(g.pattern, "/")
		if matchGlob(of, service) && (!ofMethod || method == "*") {
			return true
		}
	}
	return false
}

// hasUpper reports whether there is an upper-case letter, which no tool's name has.
func hasUpper(pattern string) bool { return strings.IndexFunc(pattern, unicode.IsUpper) >= 0 }
