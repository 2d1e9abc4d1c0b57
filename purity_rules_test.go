package slipring_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// What `shard` must not touch, because a replay with the same inputs would go another way: threads, clocks, chance, the
// order of a map, and the outside world. The rules look at objects, not at spelling: `now := time.Now`, an import under
// another name, a dot import and a promoted Lock are all seen.

// impurePackages may not be used at all, nor may what lies below them.
var impurePackages = []string{
	"sync", "os", "net", "syscall", "runtime", "io/ioutil", "log", "context", "reflect", "plugin", "testing",
	"crypto/rand", "hash/maphash", "unique", "weak", "golang.org/x/sys", "C",
}

// impureNames may not be used of packages that are otherwise welcome.
var impureNames = map[string][]string{
	"time": {
		"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Timer", "Ticker",
		"Local", "LoadLocation",
	},
	"maps": {"All", "Keys", "Values", "DeleteFunc"},
}

// sorters are the calls that make the order of a map harmless.
var sorters = map[string][]string{
	"slices": {"Sort", "SortFunc", "SortStableFunc"},
	"sort":   {"Slice", "SliceStable", "Ints", "Strings", "Sort", "Stable"},
}

// orderFree starts the comment that justifies a range over a map, on the line of the range or the one above.
const orderFree = "// order-free: "

// purity checks one type-checked package.
type purity struct {
	fset     *token.FileSet
	info     *types.Info
	free     map[string]bool // "file:line" of each justification
	sorted   map[*ast.Ident]bool
	problems []string
}

// impurities returns one line for each thing in files that depends on more than its inputs.
func impurities(fset *token.FileSet, files []*ast.File, info *types.Info) []string {
	p := &purity{fset: fset, info: info, free: make(map[string]bool), sorted: make(map[*ast.Ident]bool)}
	for _, file := range files {
		p.comments(file)
		ast.Inspect(file, p.node)
	}
	slices.Sort(p.problems)
	return slices.Compact(p.problems)
}

func (p *purity) report(at token.Pos, format string, args ...any) {
	p.problems = append(p.problems, p.line(at, 0)+": "+fmt.Sprintf(format, args...))
}

func (p *purity) line(at token.Pos, plus int) string {
	position := p.fset.Position(at)
	return fmt.Sprintf("%s:%d", position.Filename, position.Line+plus)
}

// comments notes the justifications, and refuses the directive that reaches around every import.
func (p *purity) comments(file *ast.File) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:linkname") {
				p.report(c.Pos(), "go:linkname")
			}
			if why, ok := strings.CutPrefix(c.Text, orderFree); ok && strings.TrimSpace(why) != "" {
				p.free[p.line(c.Pos(), 0)] = true
			}
		}
	}
}

func (p *purity) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		p.report(n.Pos(), "go statement")
	case *ast.SelectStmt:
		p.report(n.Pos(), "select")
	case *ast.ImportSpec:
		if path := strings.Trim(n.Path.Value, `"`); impurePackage(path) {
			p.report(n.Pos(), "import of %s", path)
		}
	case *ast.Ident:
		p.use(n)
	case *ast.CallExpr:
		p.sortedIterator(n)
		p.channel(n)
	case *ast.BlockStmt:
		p.block(n.List)
	case *ast.CaseClause:
		p.block(n.Body)
	case ast.Expr:
		p.channel(n)
	}
	return true
}

// use looks at what a name stands for, wherever it was declared.
func (p *purity) use(name *ast.Ident) {
	p.channel(name)
	object := p.info.Uses[name]
	if object == nil || object.Pkg() == nil {
		return
	}
	path := object.Pkg().Path()
	if _, isPackage := object.(*types.PkgName); isPackage {
		return
	}
	switch {
	case path == "maps" && (p.sorted[name] || p.free[p.line(name.Pos(), 0)]):
	case impurePackage(path), slices.Contains(impureNames[path], object.Name()) && ofPackage(object):
		p.report(name.Pos(), "%s.%s", path, object.Name())
	case strings.HasPrefix(path, "math/rand") && ofPackage(object) && globalRandom(object):
		p.report(name.Pos(), "%s.%s draws from the default source", path, object.Name())
	}
}

// channel refuses every expression that is one: a type, a send, a receive, a range, a call that returns one.
func (p *purity) channel(e ast.Expr) {
	if t := p.info.TypeOf(e); t != nil {
		if _, ok := t.Underlying().(*types.Chan); ok {
			p.report(e.Pos(), "channel")
		}
	}
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		p.report(e.Pos(), "channel receive")
	}
}

// sortedIterator lets slices.Sorted(maps.Keys(m)) pass. A parent is visited before the names in it.
func (p *purity) sortedIterator(call *ast.CallExpr) {
	if sorter := p.callee(call); sorter == nil || len(call.Args) == 0 ||
		!strings.HasPrefix(sorter.Pkg().Path()+"."+sorter.Name(), "slices.Sorted") {
		return
	}
	if inner, ok := call.Args[0].(*ast.CallExpr); ok && p.callee(inner) != nil {
		p.sorted[inner.Fun.(*ast.SelectorExpr).Sel] = true
	}
}

// callee returns the function of another package that call names directly, or nil.
func (p *purity) callee(call *ast.CallExpr) types.Object {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	f := p.info.Uses[selector.Sel]
	if f == nil || f.Pkg() == nil {
		return nil
	}
	return f
}

// block finds ranges over maps. It sees the statements that follow, because a sort there makes the range harmless.
func (p *purity) block(list []ast.Stmt) {
	for i, statement := range list {
		for {
			labeled, ok := statement.(*ast.LabeledStmt)
			if !ok {
				break
			}
			statement = labeled.Stmt
		}
		loop, ok := statement.(*ast.RangeStmt)
		if !ok || !isMap(p.info.TypeOf(loop.X)) || p.free[p.line(loop.Pos(), 0)] || p.free[p.line(loop.Pos(), -1)] {
			continue
		}
		if loop.Key == nil || i+1 < len(list) && p.sorts(list[i+1], collected(loop)) {
			continue
		}
		p.report(loop.Pos(), "range over a map; sort the keys, or say why the order is free: %swhy", orderFree)
	}
}

// collected returns the variable that a loop does nothing but append to, or "".
func collected(loop *ast.RangeStmt) string {
	if len(loop.Body.List) != 1 {
		return ""
	}
	assign, ok := loop.Body.List[0].(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return ""
	}
	call, ok := assign.Rhs[0].(*ast.CallExpr)
	if !ok || len(call.Args) != 2 || types.ExprString(call.Fun) != "append" {
		return ""
	}
	target := types.ExprString(assign.Lhs[0])
	if types.ExprString(call.Args[0]) != target {
		return ""
	}
	return target
}

// sorts reports whether statement is a call that sorts the variable target.
func (p *purity) sorts(statement ast.Stmt, target string) bool {
	e, ok := statement.(*ast.ExprStmt)
	if !ok || target == "" {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 || types.ExprString(call.Args[0]) != target {
		return false
	}
	f := p.callee(call)
	return f != nil && slices.Contains(sorters[f.Pkg().Path()], f.Name())
}

// isMap also sees a type parameter that could be a map.
func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	if parameter, ok := t.(*types.TypeParam); ok {
		return constraintHasMap(parameter)
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

func constraintHasMap(parameter *types.TypeParam) bool {
	constraint, ok := parameter.Constraint().Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for embedded := range constraint.EmbeddedTypes() {
		terms, ok := embedded.(*types.Union)
		if !ok {
			if isMap(embedded) {
				return true
			}
			continue
		}
		for term := range terms.Terms() {
			if isMap(term.Type()) {
				return true
			}
		}
	}
	return false
}

func impurePackage(path string) bool {
	return slices.ContainsFunc(impurePackages, func(bad string) bool {
		return path == bad || strings.HasPrefix(path, bad+"/")
	})
}

// ofPackage reports whether object is declared at the top of its package: no method, no field.
func ofPackage(object types.Object) bool { return object.Parent() == object.Pkg().Scope() }

// globalRandom reports whether object draws from a source that nobody gave us. What builds a source of its own from a
// seed (rand.New, rand.NewPCG) is fine.
func globalRandom(object types.Object) bool {
	_, isFunc := object.(*types.Func)
	return isFunc && !strings.HasPrefix(object.Name(), "New")
}
