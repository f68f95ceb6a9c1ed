package archive

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	wit "go.bytecodealliance.org/pkg/wit/types"

	types "examples/archive/bindings/imports/examples_archive_archive"
)

// walk tells of every entry of an archive, until one is answered with an error.
func walk(path string, tell func(item) error) error {
	file, err := os.Open(path)
	if err != nil {
		var because *fs.PathError
		if errors.As(err, &because) {
			err = because.Err
		}
		return err
	}
	defer file.Close()
	start, err := bufio.NewReader(file).Peek(4)
	if err != nil && err != io.EOF {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	budget := &budget{left: maxUnpacked}
	switch {
	case len(start) >= 2 && start[0] == 'P' && start[1] == 'K':
		return walkZip(file, budget, tell)
	case len(start) >= 2 && start[0] == 0x1f && start[1] == 0x8b:
		unpacked, err := gzip.NewReader(file)
		if err != nil {
			return err
		}
		return walkTar(budget.of(unpacked), tell)
	}
	return walkTar(budget.of(file), tell)
}

func walkTar(archive io.Reader, tell func(item) error) error {
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		entry := item{content: reader}
		entry.Name, entry.Size = header.Name, uint64(header.Size)
		entry.Kind = kindOf(header.FileInfo().Mode())
		if header.Typeflag == tar.TypeLink {
			entry.Kind = types.Kind_Link
		}
		if err := tell(complete(entry, header.Linkname, header.ModTime)); err != nil {
			return err
		}
	}
}

func walkZip(file *os.File, budget *budget, tell func(item) error) error {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return err
	}
	for _, found := range archive.File {
		entry := item{content: &lazy{open: found.Open, budget: budget}}
		entry.Name, entry.Size, entry.Kind = found.Name, found.UncompressedSize64, kindOf(found.Mode())
		target := ""
		if entry.Kind == types.Kind_Link {
			// A link's content is where it leads to.
			bytes, err := io.ReadAll(io.LimitReader(entry.content, 4096))
			if err != nil {
				return err
			}
			target = string(bytes)
		}
		if err := tell(complete(entry, target, found.Modified)); err != nil {
			return err
		}
	}
	return nil
}

func complete(entry item, target string, modified time.Time) item {
	entry.Sha256, entry.Target, entry.Modified = wit.None[string](), wit.None[string](), wit.None[string]()
	if target != "" {
		entry.Target = wit.Some(target)
	}
	if !modified.IsZero() && modified.Unix() != 0 {
		entry.Modified = wit.Some(modified.UTC().Format(time.RFC3339))
	}
	entry.Suspicious = isSuspicious(entry.Name, target)
	return entry
}

func kindOf(mode fs.FileMode) types.Kind {
	switch {
	case mode.IsRegular():
		return types.Kind_File
	case mode.IsDir():
		return types.Kind_Folder
	case mode&fs.ModeSymlink != 0:
		return types.Kind_Link
	}
	return types.Kind_Other
}

// budget is how much may still be unpacked.
type budget struct{ left int64 }

type budgeted struct {
	from io.Reader
	*budget
}

func (b *budget) of(from io.Reader) io.Reader { return budgeted{from, b} }

func (b budgeted) Read(to []byte) (int, error) {
	count, err := b.from.Read(to)
	b.left -= int64(count)
	if b.left < 0 {
		return 0, fmt.Errorf("it has more than %d MiB unpacked", maxUnpacked>>20)
	}
	return count, err
}

// lazy opens a file of a zip archive when it is read.
type lazy struct {
	open   func() (io.ReadCloser, error)
	budget *budget
	from   io.Reader
}

func (l *lazy) Read(to []byte) (int, error) {
	if l.from == nil {
		opened, err := l.open()
		if err != nil {
			return 0, err
		}
		l.from = l.budget.of(opened)
	}
	return l.from.Read(to)
}
