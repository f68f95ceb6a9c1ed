//! `count`: the lines, words, characters and bytes of a file, as text and as data.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use haft_plugin::{Context, Error, Hints, Output, Tool};

/// Counts the lines, words, characters and bytes of a text file.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Count {
    /// Path of the file: absolute, relative to the workspace, or beginning with ~.
    path: String,
}

/// What was counted.
#[derive(Debug, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
struct Counted {
    lines: u64,
    words: u64,
    characters: u64,
    bytes: u64,
}

impl Tool for Count {
    const NAME: &str = "count";
    const HINTS: Hints = Hints::READ_ONLY;

    fn output_schema() -> Option<String> {
        Some(haft_plugin::schema_of::<Counted>())
    }

    fn call(self, context: &Context) -> Result<Output, Error> {
        let path = context.path(&self.path);
        let counted = File::open(&path)
            .and_then(|file| count(BufReader::with_capacity(64 << 10, file)))
            .map_err(|error| Error::failed(format!("cannot read `{}`: {error}", path.display())))?;
        let Counted { lines, words, characters, bytes } = &counted;
        let text = format!("{lines} lines, {words} words, {characters} characters, {bytes} bytes");
        Output::from(text).with_structured(&counted)
    }
}

/// A word is what stands between white space; a character begins with any byte but 10xxxxxx.
fn count(mut source: impl BufRead) -> io::Result<Counted> {
    let mut counted = Counted::default();
    let mut in_word = false;
    loop {
        let chunk = source.fill_buf()?;
        let length = chunk.len();
        for byte in chunk {
            let space = byte.is_ascii_whitespace();
            counted.lines += u64::from(*byte == b'\n');
            counted.characters += u64::from(byte & 0b1100_0000 != 0b1000_0000);
            counted.words += u64::from(!in_word && !space);
            in_word = !space;
        }
        counted.bytes += length as u64;
        if length == 0 {
            return Ok(counted);
        }
        source.consume(length);
    }
}

haft_plugin::export!(Count);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_wc_does() {
        let counted = count("héllo  wörld\n🦀 crab".as_bytes()).unwrap();
        assert_eq!(counted, Counted { lines: 1, words: 4, characters: 19, bytes: 24 });
        assert_eq!(count("".as_bytes()).unwrap(), Counted::default());
    }
}
