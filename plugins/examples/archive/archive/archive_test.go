package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	wit "go.bytecodealliance.org/pkg/wit/types"

	types "examples/archive/bindings/imports/examples_archive_archive"
)

var headers = []tar.Header{
	{Name: "docs/", Typeflag: tar.TypeDir, Mode: 0o755},
	{Name: "docs/a.txt", Typeflag: tar.TypeReg, Size: 3, Mode: 0o644},
	{Name: "docs/link", Typeflag: tar.TypeSymlink, Linkname: "../../etc", Mode: 0o777},
	{Name: "../evil", Typeflag: tar.TypeReg, Size: 3, Mode: 0o644},
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func tarred(t *testing.T) []byte {
	t.Helper()
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, header := range headers {
		if err := writer.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Size > 0 {
			writer.Write([]byte("abc"))
		}
	}
	writer.Close()
	return archive.Bytes()
}

func zipped(t *testing.T) []byte {
	t.Helper()
	var archive bytes.Buffer
	writer := zip.NewWriter(&archive)
	file, err := writer.Create("docs/a.txt")
	if err != nil {
		t.Fatal(err)
	}
	file.Write([]byte("abc"))
	writer.Close()
	return archive.Bytes()
}

func gzipped(bytes_ []byte) []byte {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	writer.Write(bytes_)
	writer.Close()
	return packed.Bytes()
}

func TestEveryFormatIsRead(t *testing.T) {
	for name, content := range map[string][]byte{
		"a.tar": tarred(t), "a.tar.gz": gzipped(tarred(t)), "a.zip": zipped(t),
	} {
		file := write(t, name, content)
		found := Entries(file, wit.Some("docs/*.txt"), types.Details_Digests).Ok()
		if len(found) != 1 || found[0].Name != "docs/a.txt" || found[0].Size != 3 ||
			!strings.HasPrefix(found[0].Sha256.SomeOr(""), "ba7816bf") {
			t.Errorf("%s: %+v", name, found)
		}
		if text := Read(file, "docs/a.txt", wit.None[uint32]()).Ok().Text(); text != "abc" {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestWhatLeadsOutIsSuspicious(t *testing.T) {
	found := Entries(write(t, "a.tar", tarred(t)), wit.None[string](), types.Details_Folders).Ok()
	suspicious := []bool{false, false, true, true}
	if len(found) != len(suspicious) {
		t.Fatalf("%+v", found)
	}
	for place, entry := range found {
		if entry.Suspicious != suspicious[place] {
			t.Errorf("%+v", entry)
		}
	}
}

func TestWhatIsNoArchiveIsRefused(t *testing.T) {
	for name, content := range map[string][]byte{
		"text":      []byte(strings.Repeat("no archive at all ", 100)),
		"cut":       gzipped(tarred(t))[:60],
		"other.zip": []byte("PK\x03\x04 but nothing more"),
	} {
		if result := Entries(write(t, name, content), wit.None[string](), 0); result.IsOk() {
			t.Errorf("%s: %+v", name, result.Ok())
		}
	}
}

func TestABombEndsSomewhere(t *testing.T) {
	budget := &budget{left: 10}
	if _, err := budget.of(strings.NewReader("0123456789a")).Read(make([]byte, 100)); err == nil {
		t.Error("read on")
	}
}

func TestTextIsKnown(t *testing.T) {
	for text, expected := range map[string]bool{"": true, "abc": true, "é"[:1]: true, "a\x00b": false, "\xff\xfe\xfd\xfc\xfb": false} {
		if isText([]byte(text)) != expected {
			t.Errorf("%q", text)
		}
	}
}
