module github.com/rwsem/rwsem/bench

go 1.26

replace github.com/rwsem/rwsem => ../

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/klauspost/cpuid/v2 v2.4.2
	github.com/puzpuzpuz/xsync/v4 v4.5.0
	github.com/rwsem/rwsem v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/perf v0.0.0-20250813145418-2f7363a06fe1
	golang.org/x/tools v0.44.0
	gonum.org/v1/gonum v0.17.0
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.43.0 // indirect
)
