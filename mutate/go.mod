module github.com/rwsem/rwsem/mutate

go 1.26
