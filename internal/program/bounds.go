// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"math"
	"math/bits"

	"go.starlark.net/starlark"

	"github.com/outrigger-mcp/outrigger/errmap"
)

const (
	// stepBytes is what a step of the interpreter takes at most on average, where no function of the run is called.
	stepBytes = 32
	// elementBytes is what an element of a list takes, entryBytes one of a dict or a set, dictBytes an empty dict, and messageBytes a message
	// whose JSON is counted already.
	elementBytes = 16
	entryBytes   = 128
	dictBytes    = 512
	messageBytes = 160
	// maxBits bounds integers, whose operations cost more than a step otherwise: four times what the largest number of Protobuf has, squared.
	maxBits = 2048
	// maxNesting bounds how deep a value may be nested that is compared, hashed or written: each level is one of Go's stack.
	maxNesting = 100
	// textStep is how many bytes are looked at in a step.
	textStep = 128
	// checkSteps is how often the memory of plain steps is compared with its limit.
	checkSteps = 4096
)

// stopped is a fault that ends a program, whatever it is in. It keeps its canonical error on its way through the interpreter.
type stopped struct{ failed *errmap.Error }

func (s stopped) Error() string { return s.failed.Error() }

// stop ends the run with an error. The first one counts.
func (r *run) stop(failed *errmap.Error) error {
	if r.stopped == nil {
		r.stopped = failed
	}
	return stopped{failed}
}

// exceeded is the error of a limit of a run.
func exceeded(what, advice string) *errmap.Error {
	return errmap.New(errmap.ResourceExhausted, errmap.Message("Program too large: "+what), errmap.Advice(advice))
}

// spend counts steps and bytes before they are used.
func (r *run) spend(steps, bytes int64) error {
	steps, bytes = max(0, steps), max(0, bytes)
	// What is refused is not taken: one step above the limit says it.
	taken := min(uint64(steps), max(r.limits.Steps+1, r.thread.Steps)-r.thread.Steps)
	r.charged += taken
	r.thread.Steps += taken
	if r.memory += bytes; r.memory < 0 {
		r.memory = math.MaxInt64
	}
	return r.within()
}

func (r *run) within() error {
	if r.thread.Steps > r.limits.Steps {
		return r.stop(exceeded(fmt.Sprintf("it took more than %d steps", r.limits.Steps), "Let the tools filter, or look at fewer values."))
	}
	plain := int64(r.thread.Steps-r.charged) * stepBytes
	if r.memory > r.limits.Memory-plain && plain > r.memory {
		return r.stop(exceeded(fmt.Sprintf("the values of its steps count for more than %d bytes, %d a step", r.limits.Memory, stepBytes),
			"Let the tools filter, or look at fewer values."))
	}
	if r.memory > r.limits.Memory-plain {
		return r.stop(exceeded(fmt.Sprintf("its values took more than %d bytes", r.limits.Memory),
			"Keep what is needed of each result, and join texts once: \"\".join(list)."))
	}
	return nil
}

// checkpoint is called when the interpreter has taken the steps that it may take before it asks again.
func (r *run) checkpoint(thread *starlark.Thread) {
	if err := r.within(); err != nil {
		thread.Cancel(err.Error())
		return
	}
	thread.SetMaxExecutionSteps(min(thread.Steps+checkSteps, r.limits.Steps+1))
}

// times multiplies without an overflow.
func times(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high != 0 || low > math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return int64(low)
}

func logOf(n int) int64 { return int64(bits.Len(uint(n))) }

// spendText counts a look at n bytes.
func (r *run) spendText(n int) error { return r.spend(int64(n/textStep), 0) }

func nested() error { return fmt.Errorf("a value is nested more than %d deep", maxNesting) }

// weigh counts a step for each part of a value, as an operation costs that looks at all of it. A part that is there twice counts twice.
func (r *run) weigh(v starlark.Value) error { return r.weighAt(v, 0) }

func (r *run) weighAt(v starlark.Value, depth int) error {
	if depth > maxNesting {
		return nested()
	}
	each := func(list starlark.Iterable, n int) error {
		if err := r.spend(int64(n), 0); err != nil {
			return err
		}
		it := list.Iterate()
		defer it.Done()
		var one starlark.Value
		for it.Next(&one) {
			if err := r.weighAt(one, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	switch v := v.(type) {
	case starlark.String:
		return r.spendText(len(v))
	case starlark.Bytes:
		return r.spendText(len(v))
	case starlark.Tuple:
		return each(v, len(v))
	case *starlark.List:
		return each(v, v.Len())
	case *starlark.Set:
		return each(v, v.Len())
	case *starlark.Dict:
		if err := r.spend(int64(v.Len()), 0); err != nil {
			return err
		}
		for key, value := range v.Entries() {
			if err := r.weighAt(key, depth+1); err != nil {
				return err
			}
			if err := r.weighAt(value, depth+1); err != nil {
				return err
			}
		}
	case *message:
		return r.spendText(4 * len(v.raw))
	case *object:
		return r.spendText(4 * len(v.raw))
	case starlark.Iterable: // ranges and the like
		return r.spend(int64(max(0, starlark.Len(v))), 0)
	}
	return nil
}

// textSize is how many bytes a value takes as text, at most. It counts steps as weigh does.
func (r *run) textSize(v starlark.Value) (int64, error) {
	var size int64
	err := r.sizeAt(v, 0, &size)
	return size, err
}

func (r *run) sizeAt(v starlark.Value, depth int, size *int64) error {
	if depth > maxNesting {
		return nested()
	}
	if err := r.spend(1, 0); err != nil {
		return err
	}
	*size += 4
	switch v := v.(type) {
	case starlark.String:
		*size += 4 * int64(len(v))
	case starlark.Bytes:
		*size += 4 * int64(len(v))
	case starlark.Int:
		*size += 24
		if _, isSmall := v.Int64(); !isSmall {
			*size += maxBits
		}
	case *starlark.Dict:
		for key, value := range v.Entries() {
			if err := r.sizeAt(key, depth+1, size); err != nil {
				return err
			}
			if err := r.sizeAt(value, depth+1, size); err != nil {
				return err
			}
		}
	case *message:
		*size += int64(len(v.raw))
	case *object:
		*size += int64(len(v.raw))
	case *starlark.List, starlark.Tuple, *starlark.Set:
		it := starlark.Iterate(v)
		defer it.Done()
		var one starlark.Value
		for it.Next(&one) {
			if err := r.sizeAt(one, depth+1, size); err != nil {
				return err
			}
		}
	case *callable, *starlark.Builtin, *starlark.Function:
		*size += 512
	default:
		*size += 128
	}
	// The text has to fit too, so there is no need to walk on.
	if *size > r.limits.Memory {
		return r.spend(0, *size)
	}
	return nil
}

// spendWriting counts the text of a value before it is made.
func (r *run) spendWriting(v starlark.Value) error {
	if s, ok := v.(starlark.String); ok {
		return r.spend(int64(len(s)/textStep), 0)
	}
	size, err := r.textSize(v)
	if err != nil {
		return err
	}
	return r.spend(size/textStep, 2*size)
}

// bounded refuses integers that are too large.
func bounded(v starlark.Value, err error) (starlark.Value, error) {
	if i, ok := v.(starlark.Int); ok && err == nil {
		if _, isSmall := i.Int64(); !isSmall && i.BigInt().BitLen() > maxBits {
			return nil, fmt.Errorf("a number has more than %d bits", maxBits)
		}
	}
	return v, err
}

// length is how many elements a value has that is iterated over.
func length(v starlark.Value) (int, error) {
	if _, ok := v.(starlark.Iterable); !ok {
		return 0, fmt.Errorf("%s is not a list%s", v.Type(), iterationHint(v))
	}
	n := starlark.Len(v)
	if n < 0 {
		return 0, fmt.Errorf("%s has no length", v.Type())
	}
	return n, nil
}

func iterationHint(v starlark.Value) string {
	switch v.(type) {
	case starlark.String:
		return "; write s.elems() for its characters"
	case *message:
		return "; name one of its fields"
	case starlark.NoneType:
		return "; a field that is not set is None"
	}
	return ""
}
