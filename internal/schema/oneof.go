// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/annotation"
)

// oneofs returns one condition for each oneof of a message, and the sentences that say the same. The answer of a tool
// needs neither: what the transcoder writes cannot break a oneof.
//
// A condition is a oneOf with one branch for each member that may be set and, where the oneof may be empty, one branch
// for none, so it grows with the number of members and not with its square. In the canonical schema a member that is
// null counts as absent, as in ProtoJSON. The sentences say the same to a model, and are the text of a violation, since
// "oneOf" by itself does not say which members are meant. Each is written once: in the canonical schema at its condition, in
// the advertised one in the description of the message, unless a comment says it already.
func (d *deriver) oneofs(md protoreflect.MessageDescriptor) (conditions []any, text string) {
	if d.dir == Output {
		return nil, ""
	}
	var sentences []string
	for i := range md.Oneofs().Len() {
		od := md.Oneofs().Get(i)
		if od.IsSynthetic() {
			continue
		}
		required := d.wantsOne(od)
		var shown []string
		var branches []any
		none := &object{}
		for j := range od.Fields().Len() {
			fd := od.Fields().Get(j)
			if BehaviorOf(fd).Hides(d.dir) {
				continue
			}
			names := Names(fd)
			shown = append(shown, names[0])
			if !d.all {
				names = names[:1]
			}
			for _, name := range names {
				branches = append(branches, d.isSet(fd, name))
				none.set(name, d.isUnset(fd))
			}
		}
		if len(shown) == 0 {
			continue
		}
		sentence := fmt.Sprintf("At most one of %s may be set (%s).", strings.Join(shown, ", "), od.Name())
		if required {
			sentence = fmt.Sprintf("Exactly one of %s must be set (%s).", strings.Join(shown, ", "), od.Name())
		}
		if len(branches) == 1 && !required {
			continue
		}
		comment := Comment(od)
		if comment != "" {
			sentences = append(sentences, comment)
		}
		if d.needsSentence(od, shown) {
			sentences = append(sentences, sentence)
		}
		if !required {
			branches = append(branches, newObject("properties", none))
		}
		condition := newObject("oneOf", branches)
		if d.all {
			condition.set("description", sentence)
		}
		conditions = append(conditions, condition)
	}
	return conditions, strings.Join(sentences, "\n")
}

// oneOfWords are the ways in which comments say that fields exclude each other.
var oneOfWords = regexp.MustCompile(`(?i)\b(one of|only one|exactly one|either|mutually exclusive)\b`)

// needsSentence reports whether nothing else in the schema says in words that the fields of a oneof exclude each other.
func (d *deriver) needsSentence(od protoreflect.OneofDescriptor, fields []string) bool {
	return !d.all && (!d.isBrief() || !saysOneOf(Comment(od)) && !saysOneOf(Comment(od.Parent()), fields...))
}

// saysOneOf reports whether a comment says that fields exclude each other, and names all of the given ones.
func saysOneOf(comment string, fields ...string) bool {
	words := lettersOf(comment)
	for _, name := range fields {
		if !strings.Contains(words, lettersOf(name)) {
			return false
		}
	}
	return oneOfWords.MatchString(comment)
}

// wantsOne reports whether one of the fields has to be set, by protovalidate's rules or by those that callers are only shown.
func (d *deriver) wantsOne(od protoreflect.OneofDescriptor) bool {
	return !d.opts.WithoutRules && (isOneofRequired(od) || d.guides() && annotation.IsOneofRequired(od))
}

func (d *deriver) isSet(fd protoreflect.FieldDescriptor, name string) *object {
	o := newObject("required", []string{name})
	if d.all && !takesNull(fd) {
		o.set("properties", newObject(name, newObject("not", newObject("type", "null"))))
	}
	return o
}

func (d *deriver) isUnset(fd protoreflect.FieldDescriptor) any {
	if d.all && !takesNull(fd) {
		return newObject("type", "null")
	}
	return false
}
