// Package text is the interface `text` of wit/world.wit: each of its functions is a tool.
package text

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	wit "go.bytecodealliance.org/pkg/wit/types"

	types "local/my-plugin/bindings/imports/local_my_plugin_text"
)

// TopWords finds the most frequent words of a text.
func TopWords(text string, limit wit.Option[uint32]) wit.Result[[]types.WordCount, string] {
	most := int(limit.SomeOr(10))
	if most == 0 {
		return wit.Err[[]types.WordCount]("`limit` must be at least 1")
	}
	times := map[string]uint32{}
	for _, word := range strings.FieldsFunc(text, isBetweenWords) {
		times[strings.ToLower(word)]++
	}
	words := make([]types.WordCount, 0, len(times))
	for word, n := range times {
		words = append(words, types.WordCount{Word: word, Times: n})
	}
	slices.SortFunc(words, func(a, b types.WordCount) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Word, b.Word))
	})
	return wit.Ok[[]types.WordCount, string](words[:min(most, len(words))])
}

func isBetweenWords(letter rune) bool {
	return !unicode.IsLetter(letter) && !unicode.IsDigit(letter)
}
