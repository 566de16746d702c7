//go:build rwsemexplore

package rwsem

// hook names the step that comes next in a printed schedule. It is no step of its
// own: between it and that one there is nothing that others can observe.
func hook(p hookPoint) {
	if x := exploring; x != nil {
		x.at(p)
	}
}
