// SPDX-License-Identifier: Apache-2.0

package source

// setMemory is what a source remembers of the files that it brought, by the digests of their bytes.
type setMemory map[Digest]setFile

// setFile is what has to be known of a file that is not decoded.
type setFile struct {
	name     string
	imports  []string
	isImport bool // it is there only to be imported
	// open are the messages that can be extended, where the source asks for extensions.
	open []string
}

// knownSet are the files that need not be decoded: those that the catalog in use has.
type knownSet struct {
	memory setMemory
	names  map[string]int // how many files have a name
	needed map[string]bool
}

// knownFiles are the files that a source remembers.
func knownFiles(before *Revision) *knownSet {
	if before == nil {
		return nil
	}
	memory, ok := before.Memory.(setMemory)
	if !ok {
		return nil
	}
	k := &knownSet{memory: memory, names: make(map[string]int, len(memory)), needed: map[string]bool{}}
	for _, f := range memory {
		k.names[f.name]++
	}
	for path := range before.Needed {
		k.needed[path] = true
	}
	return k
}

// file finds a file that need not be decoded. One of two with one name always is, since the catalog has one of them only.
func (k *knownSet) file(digest Digest) (setFile, bool) {
	if k == nil {
		return setFile{}, false
	}
	f, ok := k.memory[digest]
	return f, ok && k.names[f.name] == 1 && !k.needed[f.name]
}

// suffice reports whether a load holds all that is needed of it, and notes for the next try what is not. What imports a
// file that has changed, was added or is gone has to be decoded.
func (k *knownSet) suffice(out *Loaded) bool {
	if k == nil {
		return true
	}
	same, again := map[string]bool{}, map[string]bool{}
	for _, name := range out.Same {
		again[name] = same[name] // it comes twice
		same[name] = true
	}
	changed := make([]string, 0, len(out.Files))
	for _, f := range out.Files {
		changed = append(changed, f.GetName())
		again[f.GetName()] = same[f.GetName()]
	}
	for name := range k.names {
		if !same[name] {
			changed = append(changed, name)
		}
	}
	for _, name := range k.above(changed) {
		again[name] = same[name]
	}
	isEnough := true
	for name, is := range again {
		if is {
			k.needed[name], isEnough = true, false
		}
	}
	return isEnough
}

// above are the known files that import some files, directly or through others.
func (k *knownSet) above(files []string) []string {
	importers := map[string][]string{}
	for _, f := range k.memory {
		for _, imported := range f.imports {
			importers[imported] = append(importers[imported], f.name)
		}
	}
	var out []string
	seen := map[string]bool{}
	for todo := files; len(todo) > 0; todo = todo[1:] {
		for _, name := range importers[todo[0]] {
			if !seen[name] {
				seen[name] = true
				out, todo = append(out, name), append(todo, name)
			}
		}
	}
	return out
}
