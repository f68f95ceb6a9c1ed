// Package archive is the interface `archive` of wit/world.wit: each of its functions is a tool.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	wit "go.bytecodealliance.org/pkg/wit/types"

	types "examples/archive/bindings/imports/examples_archive_archive"
)

const (
	maxEntries  = 10_000  // entries of one listing: more than any model wants to read
	maxUnpacked = 1 << 30 // bytes read of one archive, so that a small one cannot keep us busy
	maxContent  = 4 << 20 // bytes of one answer
)

// item is an entry with its content, which can be read until the next one is asked for.
type item struct {
	types.Entry
	content io.Reader
}

var errEnough = errors.New("enough")

// Entries lists what is in an archive.
func Entries(file string, pattern wit.Option[string], details types.Details) wit.Result[[]types.Entry, string] {
	wanted := pattern.SomeOr("")
	if _, err := path.Match(wanted, ""); err != nil {
		return wit.Err[[]types.Entry](fmt.Sprintf("`%s` is no pattern: %v", wanted, err))
	}
	found := []types.Entry{}
	err := walk(file, func(entry item) error {
		if !isWanted(entry, wanted, details) {
			return nil
		}
		if len(found) == maxEntries {
			return fmt.Errorf("more than %d entries: give a `pattern`", maxEntries)
		}
		if details&types.Details_Digests != 0 && entry.Kind == types.Kind_File {
			sum := sha256.New()
			if _, err := io.Copy(sum, entry.content); err != nil {
				return err
			}
			entry.Sha256 = wit.Some(hex.EncodeToString(sum.Sum(nil)))
		}
		found = append(found, entry.Entry)
		return nil
	})
	if err != nil {
		return wit.Err[[]types.Entry](explain(file, err))
	}
	return wit.Ok[[]types.Entry, string](found)
}

func isWanted(entry item, pattern string, details types.Details) bool {
	if entry.Kind == types.Kind_Folder && details&types.Details_Folders == 0 {
		return false
	}
	matches, _ := path.Match(pattern, entry.Name)
	return pattern == "" || matches
}

// Read gives the content of one file of an archive.
func Read(file, name string, limit wit.Option[uint32]) wit.Result[types.Content, string] {
	most := min(int64(limit.SomeOr(64<<10)), maxContent)
	var bytes []byte
	isFound := false
	err := walk(file, func(entry item) (err error) {
		if entry.Name != name || entry.Kind != types.Kind_File {
			return nil
		}
		isFound = true
		if bytes, err = io.ReadAll(io.LimitReader(entry.content, most)); err != nil {
			return err
		}
		return errEnough
	})
	switch {
	case err != nil && err != errEnough:
		return wit.Err[types.Content](explain(file, err))
	case !isFound:
		return wit.Err[types.Content](fmt.Sprintf("no file `%s` in `%s`; `entries` lists what there is", name, file))
	case isText(bytes):
		return wit.Ok[types.Content, string](types.MakeContentText(string(bytes)))
	}
	return wit.Ok[types.Content, string](types.MakeContentBytes(bytes))
}

// isText says whether bytes are text, apart from a letter that was cut off at the end.
func isText(bytes []byte) bool {
	for range utf8.UTFMax {
		if utf8.Valid(bytes) {
			return !strings.ContainsRune(string(bytes), 0)
		}
		bytes = bytes[:len(bytes)-1]
	}
	return false
}

// isSuspicious says whether a name or a link's target leads out of where it is unpacked.
func isSuspicious(name, target string) bool {
	leaves := func(place string) bool {
		return place == ".." || strings.HasPrefix(place, "../") || strings.HasPrefix(place, "/")
	}
	name = strings.ReplaceAll(name, `\`, "/")
	if leaves(path.Clean(name)) || len(name) > 1 && name[1] == ':' {
		return true
	}
	return target != "" && (strings.HasPrefix(target, "/") || leaves(path.Join(path.Dir(name), target)))
}

func explain(file string, err error) string {
	return fmt.Sprintf("cannot read `%s`: %v", file, err)
}
