package text

import (
	"slices"
	"testing"

	wit "go.bytecodealliance.org/pkg/wit/types"

	types "local/my-plugin/bindings/imports/local_my_plugin_text"
)

func TestTopWords(t *testing.T) {
	words := TopWords("the cat and The hat", wit.Some[uint32](2)).Ok()
	if want := []types.WordCount{{Word: "the", Times: 2}, {Word: "and", Times: 1}}; !slices.Equal(words, want) {
		t.Errorf("found %v instead of %v", words, want)
	}
}

func TestTopWordsNeedsALimit(t *testing.T) {
	if TopWords("the cat", wit.Some[uint32](0)).IsOk() {
		t.Error("a limit of 0 was taken")
	}
}
