// SPDX-License-Identifier: Apache-2.0

package jsontext

// Rewriter copies a checked value and lets its user change it in the process: omit
// members, rename them, or replace values. Values that it walks through lose their
// white space; values that it copies whole keep it. Set In, with Pos at a value,
// and take Out.
type Rewriter struct {
	In  []byte
	Pos int // position of the next value, or the end of the previous one
	Out []byte
}

// Next returns the first byte of the value at Pos.
func (r *Rewriter) Next() byte { return r.In[r.Pos] }

// Copy copies the value at Pos unchanged.
func (r *Rewriter) Copy() {
	start := r.Pos
	r.Skip()
	r.Out = append(r.Out, r.In[start:r.Pos]...)
}

// Skip skips the value at Pos.
func (r *Rewriter) Skip() { r.Pos = SkipValue(r.In, r.Pos) }

// Members walks through the object at Pos. It calls choose for each member, with
// the quoted name, and with Pos at the value. choose returns the name to write and
// a function that writes the value and moves Pos past it. Nil omits the member.
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

// Items walks through the array at Pos; item writes an element and moves Pos past it.
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

// PlainName decodes a quoted name.
func PlainName(quoted []byte) string {
	name, _ := Text(quoted)
	return name
}
