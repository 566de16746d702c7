module github.com/rwsem/rwsem/proof

go 1.26

replace github.com/rwsem/rwsem => ../

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/rwsem/rwsem v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/klauspost/cpuid/v2 v2.4.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.41.0 // indirect
)
