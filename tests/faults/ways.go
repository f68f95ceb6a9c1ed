// Package ways has ways to fail in Go.
package ways

import (
	"fmt"

	wit "go.bytecodealliance.org/pkg/wit/types"

	types "local/faults/bindings/imports/local_faults_ways"
)

type entry struct{ word string }

var words = map[uint32]*entry{}

// NullDereference uses what is not there.
func NullDereference(index uint32) string {
	return words[index].word // fault: null-dereference
}

// WrongType uses a value of another type.
func WrongType(index uint32) []types.WordCount {
	var word any = index
	return []types.WordCount{{Word: word.(string), Times: 1}} // fault: wrong-type
}

// Uncaught ends by a panic.
func Uncaught(index uint32) wit.Result[string, string] {
	panic(fmt.Errorf("no word %d", index)) // fault: uncaught
}

// OutOfMemory takes memory until there is none.
func OutOfMemory(index uint32) uint32 {
	var all [][]byte
	for {
		all = append(all, make([]byte, 1<<20)) // fault: out-of-memory
		all[len(all)-1][0] = byte(index)
	}
}
