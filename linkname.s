// Empty: the compiler accepts functions without a body, which park.go takes
// from the runtime, only in a package that has an assembly file.
