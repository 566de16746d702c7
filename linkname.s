//go:build go1.26 && !go1.28 && !rwsem_nolinkname && !rwsemexplore

// Empty: the compiler accepts functions without a body, which park_linkname.go
// takes from the runtime, only in a package that has an assembly file.
