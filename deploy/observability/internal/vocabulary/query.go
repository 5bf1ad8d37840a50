// SPDX-License-Identifier: Apache-2.0

package vocabulary

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Check parses a query and returns the labels of its result. The error has everything that cannot be: unknown metrics,
// labels and values, groupings by labels that are not there, operands that never match.
func (v *Vocabulary) Check(query string) (Labels, error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	c := checker{v: v}
	out := c.labels(e)
	if err := errors.Join(c.errs...); err != nil {
		return out, fmt.Errorf("%s: %w", query, err)
	}
	return out, nil
}

// checker collects what is wrong with one query.
type checker struct {
	v    *Vocabulary
	errs []error
}

func (c *checker) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// labels returns the labels of what an expression results in.
func (c *checker) labels(e parser.Expr) Labels {
	switch e := e.(type) {
	case *parser.VectorSelector:
		return c.selector(e)
	case *parser.MatrixSelector:
		return c.labels(e.VectorSelector)
	case *parser.SubqueryExpr:
		return c.labels(e.Expr)
	case *parser.ParenExpr:
		return c.labels(e.Expr)
	case *parser.UnaryExpr:
		return c.labels(e.Expr)
	case *parser.StepInvariantExpr:
		return c.labels(e.Expr)
	case *parser.AggregateExpr:
		return c.aggregate(e)
	case *parser.Call:
		return c.call(e)
	case *parser.BinaryExpr:
		return c.binary(e)
	default: // numbers and texts
		return Labels{}
	}
}

// plain is a part of a pattern that matches itself only.
var plain = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

func (c *checker) selector(e *parser.VectorSelector) Labels {
	known, err := c.v.of(e.Name)
	if err != nil {
		c.errs = append(c.errs, err)
		return Labels{}
	}
	for _, m := range e.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		if !known[m.Name] {
			c.fail("%s has no label %s", e.Name, m.Name)
		}
		for value := range strings.SplitSeq(m.Value, "|") {
			if plain.MatchString(value) && !slices.Contains(c.v.added, m.Name) && !c.v.isValue(e.Name, m.Name, value) {
				c.fail("%s of %s is never %q", m.Name, e.Name, value)
			}
		}
	}
	return known
}

func (c *checker) aggregate(e *parser.AggregateExpr) Labels {
	inner := c.labels(e.Expr)
	out := Labels{}
	if e.Without {
		out = maps.Clone(inner)
	}
	for _, l := range e.Grouping {
		if !inner[l] {
			c.fail("%s: nothing in it has a label %s", e, l)
		}
		if e.Without {
			delete(out, l)
		} else {
			out[l] = true
		}
	}
	if e.Op == parser.TOPK || e.Op == parser.BOTTOMK {
		return inner
	}
	return out
}

func (c *checker) call(e *parser.Call) Labels {
	out := Labels{}
	for _, arg := range e.Args {
		maps.Copy(out, c.labels(arg))
	}
	if e.Func.Name == "histogram_quantile" {
		if !out["le"] {
			c.fail("%s: the buckets have lost their label le", e)
		}
		delete(out, "le")
	}
	return out
}

func (c *checker) binary(e *parser.BinaryExpr) Labels {
	left, right := c.labels(e.LHS), c.labels(e.RHS)
	if e.LHS.Type() == parser.ValueTypeScalar {
		return right
	}
	if e.RHS.Type() == parser.ValueTypeScalar {
		return left
	}
	m := e.VectorMatching
	for _, l := range m.MatchingLabels {
		if m.On && !(left[l] && right[l]) {
			c.fail("%s: not both sides have the label %s", e, l)
		}
	}
	switch {
	case e.Op == parser.LOR:
		out := maps.Clone(left)
		maps.Copy(out, right)
		return out
	case !m.On && len(m.MatchingLabels) == 0 && !maps.Equal(left, right):
		c.fail("%s: the sides have different labels, %v and %v, and never match", e, left, right)
	case m.On && m.Card == parser.CardOneToOne && !e.Op.IsSetOperator():
		out := Labels{}
		for _, l := range m.MatchingLabels {
			out[l] = true
		}
		return out
	}
	return left
}
