// SPDX-License-Identifier: Apache-2.0

package jsontext

// Rewriter copies a value that was checked and lets its user change it on the way:
// leave members out, give them other names, write other values. What it walks through
// loses its white space; what it copies whole keeps it. Set In, with Pos at a value,
// and take Out.
type Rewriter struct {
	In  []byte
	Pos int // of the value that is next, or the end of the one before it
	Out []byte
}

// Next is the first byte of the value at Pos.
func (r *Rewriter) Next() byte { return r.In[r.Pos] }

// Copy copies the value at Pos as it is.
func (r *Rewriter) Copy() {
	start := r.Pos
	r.Skip()
	r.Out = append(r.Out, r.In[start:r.Pos]...)
}

// Skip passes over the value at Pos.
func (r *Rewriter) Skip() { r.Pos = SkipValue(r.In, r.Pos) }

// Members walks through the object at Pos. For each member, with Pos at its value,
// choose gets the name in its quotes and returns the one to write and what writes the
// value and moves Pos behind it; nil leaves the member out.
func (r *Rewriter) Members(choose func(quoted []byte) (name []byte, value func())) {
	r.enter('{')
	for first := true; r.Pos < len(r.In) && r.In[r.Pos] != '}'; r.step() {
		start := r.Pos
		r.Pos = SkipString(r.In, r.Pos)
		quoted := r.In[start:r.Pos]
		r.Pos = SkipSpace(r.In, min(SkipSpace(r.In, r.Pos)+1, len(r.In))) // behind the colon
		name, value := choose(quoted)
		if value == nil {
			r.Skip()
			continue
		}
		if !first {
			r.Out = append(r.Out, ',')
		}
		first = false
		r.Out = append(append(r.Out, name...), ':')
		value()
	}
	r.leave('}')
}

// Items walks through the array at Pos; item writes an element and moves Pos behind it.
func (r *Rewriter) Items(item func(index int)) {
	r.enter('[')
	for i := 0; r.Pos < len(r.In) && r.In[r.Pos] != ']'; i++ {
		if i > 0 {
			r.Out = append(r.Out, ',')
		}
		item(i)
		r.step()
	}
	r.leave(']')
}

func (r *Rewriter) enter(bracket byte) {
	r.Out = append(r.Out, bracket)
	r.Pos = SkipSpace(r.In, r.Pos+1)
}

// step moves from behind an element to the next one, or to the closing bracket.
func (r *Rewriter) step() {
	r.Pos = SkipSpace(r.In, r.Pos)
	if r.Pos < len(r.In) && r.In[r.Pos] == ',' {
		r.Pos = SkipSpace(r.In, r.Pos+1)
	}
}

func (r *Rewriter) leave(bracket byte) {
	r.Out = append(r.Out, bracket)
	r.Pos = min(r.Pos+1, len(r.In))
}

// PlainName decodes a name in its quotes.
func PlainName(quoted []byte) string {
	name, _ := Text(quoted)
	return name
}
