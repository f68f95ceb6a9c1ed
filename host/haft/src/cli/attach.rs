//! Files that a user attaches to a prompt: pictures, PDF, text. The bytes of a file decide its type. A file that no
//! model accepts is refused before any request, with a remedy.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::dialogue::Dialogue;
use super::terminal::Hinted;
use haft_core::call::{Attachment, media_type_of};
use haft_core::report::plain;

/// Maximum bytes of a picture or a PDF: the largest limit of any vendor. Vendors with lower limits refuse the
/// request.
const MAX_FILE: u64 = 32 << 20;

/// Maximum bytes of a text: more than the largest context window.
const MAX_TEXT: u64 = 4 << 20;

/// Maximum bytes of all files of a prompt. A session of 256 MiB holds several such prompts.
const MAX_ALL: usize = 48 << 20;

/// Maximum number of files of a prompt: about the limit of vendors.
const MAX_FILES: usize = 100;

/// Media types, beside text, that models accept.
const SHOWN: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"];

/// The remedy for a file that no model accepts.
const WAY_OUT: &str =
    "convert the file, or write its path into the prompt so that the model can read it with a tool";

/// Reads `paths`, and appends the files to `attached` in their order. Appends none if one cannot be attached.
pub(super) fn read_all(paths: &[PathBuf], attached: &mut Vec<Attachment>) -> anyhow::Result<()> {
    let new = paths.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let count = attached.len() + new.len();
    let size: usize = attached.iter().chain(&new).map(|file| file.data.len()).sum();
    if count > MAX_FILES {
        let message = format!("{count} files are too many for one prompt: the limit is {MAX_FILES}");
        return Err(Hinted::new(message, "attach the others to the next prompt").into());
    }
    if size > MAX_ALL {
        let message = format!("the files have {size} bytes in total; the limit of a prompt is {MAX_ALL}");
        return Err(
            Hinted::new(message, "attach the others to the next prompt, or make pictures smaller").into()
        );
    }
    attached.extend(new);
    Ok(())
}

/// Refuses files that the API of the chosen model does not accept.
pub(super) fn check<'a>(
    files: impl IntoIterator<Item = &'a Attachment>,
    dialogue: &Dialogue,
) -> anyhow::Result<()> {
    for file in files {
        if let Some(why) = dialogue.refusal(file) {
            let message =
                format!("`{}` is not shown to `{}`: {why}", plain(&file.described()), dialogue.model());
            return Err(Hinted::new(message, format!("choose another provider, or {WAY_OUT}")).into());
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Attachment> {
    if path == Path::new("-") {
        let hint = "`haft run -` reads the prompt from standard input; attach files by path";
        return Err(Hinted::new("standard input cannot be attached", hint).into());
    }
    let shown = path.display();
    let data = bytes(path).map_err(|error| anyhow::anyhow!("cannot attach `{shown}`: {error}"))?;
    let media_type =
        media_type(&data).map_err(|why| Hinted::new(format!("cannot attach `{shown}`: {why}"), WAY_OUT))?;
    let most = if media_type == TEXT { MAX_TEXT } else { MAX_FILE };
    if data.len() as u64 > most {
        let message =
            format!("cannot attach `{shown}`: it is larger than {most} bytes, the limit for {media_type}");
        let hint = "attach a part of it, or write its path into the prompt so that the model can read it \
            with a tool";
        return Err(Hinted::new(message, hint).into());
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Attachment { name, ..Attachment::new(media_type, data) })
}

/// Returns the bytes of a file, at most one more than the limit.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut data)?;
    Ok(data)
}

const TEXT: &str = "text/plain";

/// Returns the media type of the bytes, or the reason why models do not accept them.
fn media_type(data: &[u8]) -> Result<&'static str, String> {
    match media_type_of(data) {
        Some(known) if SHOWN.contains(&known) => return Ok(known),
        Some(other) => {
            return Err(format!("it is `{other}`; expected an image (PNG, JPEG, GIF, WebP), a PDF or text"));
        }
        None => {}
    }
    // The read part of an oversized file may end within a character.
    let is_text = match std::str::from_utf8(data) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && data.len() as u64 > MAX_FILE,
    };
    match data {
        [] => Err("it is empty".into()),
        _ if is_text && !data.contains(&0) => Ok(TEXT),
        _ => Err("expected an image (PNG, JPEG, GIF, WebP), a PDF or UTF-8 text".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    #[test]
    fn files_are_what_their_bytes_say_and_keep_their_order() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str, data: &[u8]| {
            let path = place.path().join(name);
            fs::write(&path, data).unwrap();
            path
        };
        let paths = [path("b.txt", PNG), path("a.pdf", b"%PDF-1.7\n"), path("c.png", "\u{e4}\n".as_bytes())];
        let mut attached = vec![Attachment::new("image/gif", vec![1])];
        read_all(&paths, &mut attached).unwrap();
        let told: Vec<_> = attached.iter().map(Attachment::mention).collect();
        let expected = [
            "[image/gif, 1 bytes]",
            "[b.txt: image/png, 16 bytes]",
            "[a.pdf: application/pdf, 9 bytes]",
            "[c.png: text/plain, 3 bytes]",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_cannot_be_attached_says_why_and_adds_nothing() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, data: &[u8]| {
            let path = place.path().join(name);
            fs::write(&path, data).unwrap();
            path
        };
        let bytes = |most: u64| usize::try_from(most).unwrap();
        let large = [PNG, &vec![0; bytes(MAX_FILE)]].concat();
        for (path, expected) in [
            (PathBuf::from("-"), "standard input cannot be attached"),
            (place.path().join("none"), "none`: No such file or directory"),
            (place.path().to_owned(), "`: Is a directory"),
            (write("empty", b""), "empty`: it is empty"),
            (write("x.zip", b"PK\x03\x04"), "x.zip`: it is `application/zip`; expected an image"),
            (write("x.bin", b"a\0b"), "x.bin`: expected an image"),
            (write("x.latin", b"\xe4"), "x.latin`: expected an image"),
            (
                write("x.log", &vec![b'x'; bytes(MAX_TEXT) + 1]),
                "x.log`: it is larger than 4194304 bytes, the limit for text",
            ),
            (write("x.png", &large), "x.png`: it is larger than 33554432 bytes, the limit for image/png"),
        ] {
            let mut attached = Vec::new();
            let error = read_all(&[write("good", b"x"), path], &mut attached).unwrap_err().to_string();
            assert!(error.contains(expected) && attached.is_empty(), "{error}");
        }
    }

    #[test]
    fn a_prompt_takes_so_many_files_and_bytes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.txt");
        fs::write(&path, "x").unwrap();
        let error = |attached: &mut Vec<Attachment>| {
            read_all(std::slice::from_ref(&path), attached).unwrap_err().to_string()
        };
        let mut many = vec![Attachment::new(TEXT, vec![b'x']); MAX_FILES];
        assert!(error(&mut many).contains("101 files are too many"), "{many:?}");
        let mut large = vec![Attachment::new(TEXT, vec![b'x'; MAX_ALL])];
        assert!(error(&mut large).contains("50331649 bytes in total; the limit of a prompt is 50331648"));
    }
}
