package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one change to one function. Its name has no line numbers, so that
// what is written about it stays true when other functions change.
type mutant struct {
	Name   string `json:"name"`   // file:function:operator:ordinal
	Change string `json:"change"` // what becomes of what
	Line   int    `json:"line"`

	id         int
	file       string
	fn         *function
	start, end int    // the bytes of the file that give way
	text       string // to this
}

// A function is where a declared one stands in its file, and how it is called.
type function struct {
	name               string // with the receiver's type
	start, end         int
	nameStart, nameEnd int
	body               int    // behind its opening brace
	call               string // a call of it from within, the name of a copy being %s
}

// Operators, by which mutants are named.
const (
	opBits     = "bits"     // a bit operation is dropped or turned round
	opShift    = "shift"    // a comparison is moved by one: < and <=, == and !=
	opNegate   = "negate"   // a condition is turned round
	opSwap     = "swap"     // && and ||
	opOnly     = "only"     // one side of && or || is all there is
	opDrop     = "drop"     // a statement that is a call is left out
	opNoStore  = "nostore"  // an atomic step in an expression is a load
	opUnassign = "unassign" // an assignment is left out
	opBranch   = "branch"   // break and continue
	opCount    = "count"    // a number is one more or one less
	opArith    = "arith"    // + and -
	opFlip     = "flip"     // true and false
)

// counts are the named constants that are numbers of something.
var counts = regexp.MustCompile(`^(max[A-Z]\w*|wakeFan|\w+Rounds|\w+Score)$`)

// silent are functions that do nothing in the builds that are tested: to leave
// out a call of them changes nothing.
var silent = regexp.MustCompile(`^(hook|race[A-Z]\w*)$`)

var (
	shifted = map[token.Token]token.Token{
		token.LSS: token.LEQ, token.LEQ: token.LSS,
		token.GTR: token.GEQ, token.GEQ: token.GTR,
		token.EQL: token.NEQ, token.NEQ: token.EQL,
	}
	swapped = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}
	// turned is what stands in an operation's place; bit operations are dropped too.
	turned = map[token.Token]token.Token{
		token.OR: token.AND, token.AND: token.OR, token.AND_NOT: token.OR,
		token.SHL: token.SHR, token.SHR: token.SHL,
		token.ADD: token.SUB, token.SUB: token.ADD,
	}
	turnedAssign = map[token.Token]token.Token{
		token.OR_ASSIGN: token.AND_ASSIGN, token.AND_ASSIGN: token.OR_ASSIGN, token.AND_NOT_ASSIGN: token.OR_ASSIGN,
		token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	}
)

// generate returns the mutants of a Go file, in the order of its functions.
// Some do not compile.
func generate(file string, src []byte) ([]*mutant, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []*mutant
	for _, d := range f.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok || decl.Body == nil {
			continue
		}
		g := &generator{fset: fset, src: src, seen: map[string]bool{}, ordinals: map[string]int{}}
		fn, err := g.function(decl)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		g.walk(decl.Body)
		for _, m := range g.mutants {
			m.file, m.fn = file, fn
			m.Name = file + ":" + fn.name + ":" + m.Name
		}
		all = append(all, g.mutants...)
	}
	return all, nil
}

type generator struct {
	fset     *token.FileSet
	src      []byte
	path     []ast.Node // from the body to the node at hand
	mutants  []*mutant
	seen     map[string]bool
	ordinals map[string]int
}

func (g *generator) at(p token.Pos) int       { return g.fset.Position(p).Offset }
func (g *generator) source(n ast.Node) string { return string(g.src[g.at(n.Pos()):g.at(n.End())]) }

// function describes decl.
func (g *generator) function(decl *ast.FuncDecl) (*function, error) {
	fn := &function{
		name:      decl.Name.Name,
		start:     g.at(decl.Pos()),
		end:       g.at(decl.End()),
		nameStart: g.at(decl.Name.Pos()),
		nameEnd:   g.at(decl.Name.End()),
		body:      g.at(decl.Body.Lbrace) + 1,
		call:      "%s",
	}
	named := func(f *ast.Field) error {
		if len(f.Names) == 0 || slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == "_" }) {
			return fmt.Errorf("%s has a parameter without a name", fn.name)
		}
		return nil
	}
	if decl.Recv != nil {
		f := decl.Recv.List[0]
		if err := named(f); err != nil {
			return nil, err
		}
		fn.name = strings.TrimPrefix(g.source(f.Type), "*") + "." + fn.name
		fn.call = f.Names[0].Name + ".%s"
	}
	var args []string
	for _, f := range decl.Type.Params.List {
		if err := named(f); err != nil {
			return nil, err
		}
		dots := ""
		if _, ok := f.Type.(*ast.Ellipsis); ok {
			dots = "..."
		}
		for _, n := range f.Names {
			args = append(args, n.Name+dots)
		}
	}
	fn.call += "(" + strings.Join(args, ", ") + ")"
	if decl.Type.Results != nil {
		fn.call = "return " + fn.call
	} else {
		fn.call += "; return"
	}
	return fn, nil
}

func (g *generator) walk(body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		if n == nil {
			g.path = g.path[:len(g.path)-1]
			return true
		}
		if s, ok := n.(*ast.ExprStmt); ok && silent.MatchString(called(s.X)) {
			return false
		}
		g.node(n)
		g.path = append(g.path, n)
		return true
	})
}

// called is the name of the function that x calls, without what it belongs to.
func called(x ast.Expr) string {
	c, ok := x.(*ast.CallExpr)
	if !ok {
		return ""
	}
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// add notes that text may stand in n's place. shown is the node that is shown to
// people, which n is or lies in.
func (g *generator) add(op string, n ast.Node, text string, shown ast.Node) {
	g.addPlain(op, n, text, text, shown)
}

// addPlain is add where people are shown something plainer than text.
func (g *generator) addPlain(op string, n ast.Node, text, plain string, shown ast.Node) {
	start, end := g.at(n.Pos()), g.at(n.End())
	if text == string(g.src[start:end]) {
		return
	}
	key := fmt.Sprint(start, end, text)
	if g.seen[key] {
		return
	}
	g.seen[key] = true
	g.ordinals[op]++
	before := g.source(shown)
	from, to := start-g.at(shown.Pos()), end-g.at(shown.Pos())
	after := before[:from] + plain + before[to:]
	g.mutants = append(g.mutants, &mutant{
		Name:   op + ":" + strconv.Itoa(g.ordinals[op]),
		Change: oneLine(before) + " -> " + oneLine(after),
		Line:   g.fset.Position(n.Pos()).Line,
		start:  start, end: end, text: text,
	})
}

// oneLine is text on one line, not all of it if it is long.
func oneLine(text string) string {
	const most = 100
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return "nothing"
	}
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

func (g *generator) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		g.condition(n.Cond)
	case *ast.ForStmt:
		g.condition(n.Cond)
	case *ast.CaseClause:
		if s, ok := g.path[len(g.path)-2].(*ast.SwitchStmt); ok && s.Tag == nil {
			for _, x := range n.List {
				g.condition(x)
			}
		}
	case *ast.BinaryExpr:
		g.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.XOR {
			g.add(opBits, n, g.source(n.X), n)
		}
	case *ast.ExprStmt:
		if called(n.X) != "" {
			g.add(opDrop, n, "", n)
		}
	case *ast.CallExpr:
		if _, ok := g.parent().(*ast.ExprStmt); !ok {
			g.step(n)
		}
	case *ast.AssignStmt:
		g.assign(n)
	case *ast.IncDecStmt:
		g.add(opUnassign, n, "", n)
		to := "++"
		if n.Tok == token.INC {
			to = "--"
		}
		g.add(opArith, n, g.source(n.X)+to, n)
	case *ast.BranchStmt:
		g.branch(n)
	case *ast.BasicLit:
		g.literal(n)
	case *ast.Ident:
		g.ident(n)
	}
}

func (g *generator) parent() ast.Node {
	if len(g.path) == 0 {
		return nil
	}
	return g.path[len(g.path)-1]
}

func (g *generator) condition(x ast.Expr) {
	if x == nil {
		return
	}
	if b, ok := x.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return // as shifted
	}
	g.add(opNegate, x, "!("+g.source(x)+")", x)
}

func (g *generator) binary(n *ast.BinaryExpr) {
	x, y := g.source(n.X), g.source(n.Y)
	with := func(op string, t token.Token) {
		g.addPlain(op, n, "(("+x+") "+t.String()+" ("+y+"))", x+" "+t.String()+" "+y, n)
	}
	side := func(op, x string) { g.addPlain(op, n, "("+x+")", x, n) }
	switch n.Op {
	case token.LAND, token.LOR:
		with(opSwap, swapped[n.Op])
		side(opOnly, x)
		side(opOnly, y)
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
		with(opShift, shifted[n.Op])
	case token.OR, token.AND, token.AND_NOT:
		side(opBits, x)
		with(opBits, turned[n.Op])
	case token.SHL, token.SHR:
		with(opBits, turned[n.Op])
	case token.ADD, token.SUB:
		if !strings.ContainsAny(x+y, "\"`") {
			with(opArith, turned[n.Op])
		}
	}
}

// step has an atomic step look and do nothing.
func (g *generator) step(n *ast.CallExpr) {
	s, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	x := g.source(s.X)
	switch {
	case s.Sel.Name == "CompareAndSwap" && len(n.Args) == 2:
		g.addPlain(opNoStore, n, "func() bool { _ = "+g.source(n.Args[1])+"; return "+x+".Load() == "+g.source(n.Args[0])+" }()",
			x+".Load() == "+g.source(n.Args[0]), n)
	case (s.Sel.Name == "Or" || s.Sel.Name == "And" || s.Sel.Name == "Add") && len(n.Args) == 1:
		g.add(opNoStore, n, x+".Load()", n)
	}
}

func (g *generator) assign(n *ast.AssignStmt) {
	switch n.Tok {
	case token.DEFINE:
		return
	case token.ASSIGN:
		if len(n.Lhs) != len(n.Rhs) { // all at once
			g.add(opUnassign, n, strings.Repeat("_, ", len(n.Lhs)-1)+"_ = "+g.source(n.Rhs[0]), n)
			return
		}
		for i := range n.Lhs {
			var left, right []string
			for j := range n.Lhs {
				l, r := g.source(n.Lhs[j]), g.source(n.Rhs[j])
				if j == i {
					l = "_"
				}
				if l == "_" && r == "nil" { // which has no type
					continue
				}
				left, right = append(left, l), append(right, r)
			}
			text := ""
			if len(left) > 0 {
				text = strings.Join(left, ", ") + " = " + strings.Join(right, ", ")
			}
			g.add(opUnassign, n, text, n)
		}
	default:
		g.add(opUnassign, n, "_ = "+g.source(n.Rhs[0]), n)
		if to, ok := turnedAssign[n.Tok]; ok {
			op := opBits
			if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
				op = opArith
			}
			g.add(op, n, g.source(n.Lhs[0])+" "+to.String()+" "+g.source(n.Rhs[0]), n)
		}
	}
}

func (g *generator) branch(n *ast.BranchStmt) {
	if n.Label != nil || n.Tok != token.BREAK && n.Tok != token.CONTINUE {
		return
	}
	for i := len(g.path) - 1; i >= 0; i-- {
		switch g.path[i].(type) {
		case *ast.FuncLit:
			return
		case *ast.ForStmt, *ast.RangeStmt:
			to := token.BREAK
			if n.Tok == token.BREAK {
				to = token.CONTINUE
			}
			g.add(opBranch, n, to.String(), n)
			return
		}
	}
}

func (g *generator) literal(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	v, err := strconv.ParseInt(n.Value, 0, 64)
	if err != nil {
		return
	}
	if b, ok := g.parent().(*ast.BinaryExpr); ok && v == 0 && (b.Op == token.EQL || b.Op == token.NEQ) {
		return // what is compared are bits, and pointers' kin
	}
	g.add(opCount, n, strconv.FormatInt(v+1, 10), g.parent())
	if v != 0 {
		g.add(opCount, n, strconv.FormatInt(v-1, 10), g.parent())
	}
}

func (g *generator) ident(n *ast.Ident) {
	switch p := g.parent().(type) {
	case *ast.SelectorExpr:
		if p.Sel == n {
			return
		}
	case *ast.CallExpr:
		if p.Fun == n {
			return
		}
	case *ast.KeyValueExpr:
		if p.Key == n {
			return
		}
	}
	switch {
	case n.Name == "true":
		g.add(opFlip, n, "false", g.parent())
	case n.Name == "false":
		g.add(opFlip, n, "true", g.parent())
	case counts.MatchString(n.Name):
		g.add(opCount, n, "("+n.Name+" + 1)", g.parent())
		g.add(opCount, n, "("+n.Name+" - 1)", g.parent())
	}
}
