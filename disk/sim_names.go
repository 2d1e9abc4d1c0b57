package disk

import (
	"slices"
	"strings"
	"syscall"
)

// simNames is the tree of names: as a process sees it, as the medium has it, and the changes between the two.
type simNames struct {
	seen    map[string]*simFile
	durable map[string]*simFile
	pending []nameChange // in order
}

// nameChange is a create (file, to), a rename (file, from, to) or a remove (file, from) that no OpSyncDir covers.
type nameChange struct {
	file     *simFile
	from, to string
}

func newSimNames() simNames {
	return simNames{seen: make(map[string]*simFile), durable: make(map[string]*simFile)}
}

func (c nameChange) directory() string {
	if c.to != "" {
		return parent(c.to)
	}
	return parent(c.from)
}

func (c nameChange) apply(names map[string]*simFile) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.to != "" {
		names[c.to] = c.file
	}
}

func (n *simNames) change(c nameChange) {
	c.apply(n.seen)
	n.pending = append(n.pending, c)
}

// find looks path up as the kernel does; nil without an error is the data directory.
func (n *simNames) find(path string) (*simFile, error) {
	if path == "" {
		return nil, nil
	}
	up, err := n.find(parent(path))
	switch f := n.seen[path]; {
	case err != nil:
		return nil, err
	case up != nil && !up.dir:
		return nil, syscall.ENOTDIR
	case f == nil:
		return nil, syscall.ENOENT
	default:
		return f, nil
	}
}

// list returns the sorted names in a directory.
func (n *simNames) list(dir string, dst []string) []string {
	prefix := len(dir) + 1
	if dir == "" {
		prefix = 0
	}
	for p := range n.seen {
		if strings.HasPrefix(p, dir) && parent(p) == dir {
			dst = append(dst, p[prefix:])
		}
	}
	slices.Sort(dst)
	return dst
}

// sync makes the changes of one directory durable and says whether a name was among them that is no more.
func (n *simNames) sync(dir string) (lost bool) {
	kept := n.pending[:0]
	for _, c := range n.pending {
		if c.directory() == dir {
			c.apply(n.durable)
			lost = lost || c.from != ""
		} else {
			kept = append(kept, c)
		}
	}
	n.pending = kept
	return lost
}

func (s *Sim) applyNames(op *Op) error {
	n := &s.names
	if op.Kind == OpCreate {
		return s.create(op)
	}
	file, err := n.find(op.Path)
	switch {
	case op.Kind == OpList && err == syscall.ENOENT:
		return nil
	case err != nil:
		return err
	}
	isDir := file == nil || file.dir
	switch op.Kind {
	case OpList, OpSyncDir:
		if !isDir {
			return syscall.ENOTDIR
		}
		if op.Kind == OpList {
			op.Names = n.list(op.Path, op.Names[:0])
			return nil
		}
		if n.sync(op.Path) {
			s.collect()
		}
	case OpOpen:
		if isDir {
			return syscall.EISDIR
		}
		op.File = s.handle(file, op.Path)
	case OpRename:
		if old := n.seen[op.NewPath]; isDir || old != nil && old.dir {
			return syscall.EISDIR // of no use to anybody, so not simulated
		}
		if op.Path != op.NewPath {
			n.change(nameChange{file: file, from: op.Path, to: op.NewPath})
		}
	case OpRemove:
		if isDir && len(n.list(op.Path, nil)) > 0 {
			return syscall.ENOTEMPTY
		}
		s.remove(file, op.Path)
	}
	return nil
}

// create makes a file. Directories on the way are durable at once, as Device promises.
func (s *Sim) create(op *Op) error {
	if s.names.seen[op.Path] != nil {
		return syscall.EEXIST
	}
	for i, c := range op.Path {
		if c != '/' {
			continue
		}
		dir := op.Path[:i]
		switch f := s.names.seen[dir]; {
		case f == nil:
			f = s.node(true)
			s.names.seen[dir] = f
			s.names.sync(parent(dir))
			s.names.durable[dir] = f
		case !f.dir:
			return syscall.ENOTDIR
		}
	}
	f := s.node(false)
	s.names.change(nameChange{file: f, to: op.Path})
	op.File = s.handle(f, op.Path)
	return nil
}

// remove punches the file out and drops its name. A crash may bring back the name, with or without the bytes.
func (s *Sim) remove(f *simFile, path string) {
	size := f.size
	s.used -= f.truncate(s.opt.Pages, 0)
	f.size = size
	s.names.change(nameChange{file: f, from: path})
}

func (s *Sim) node(dir bool) *simFile {
	id := 0
	if n := len(s.nodes); n > 0 {
		id = s.nodes[n-1].id
	}
	f := &simFile{id: id + 1, dir: dir}
	s.nodes = append(s.nodes, f)
	return f
}

func (s *Sim) handle(f *simFile, path string) File {
	for i := range s.open {
		if s.open[i].file == nil {
			s.open[i] = simHandle{f, path}
			return File(i + 1)
		}
	}
	s.open = append(s.open, simHandle{f, path})
	return File(len(s.open))
}

// collect frees the files that nothing can reach any more, not even after a crash.
func (s *Sim) collect() {
	live := make(map[*simFile]bool, len(s.nodes))
	for _, f := range s.names.seen {
		live[f] = true
	}
	for _, f := range s.names.durable {
		live[f] = true
	}
	for _, c := range s.names.pending {
		live[c.file] = true
	}
	for _, h := range s.open {
		live[h.file] = true
	}
	s.nodes = slices.DeleteFunc(s.nodes, func(f *simFile) bool {
		if live[f] {
			return false
		}
		s.used -= f.release(s.opt.Pages)
		return true
	})
}
