//! What bytes are, by how they begin. Knows the kinds of files that models and plugins exchange, and guesses nothing.

/// How files of a kind begin.
const MAGIC_NUMBERS: [(&[u8], &str); 5] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
];

/// The media type of `bytes`, where their beginning tells it.
pub fn media_type_of(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    let known = MAGIC_NUMBERS.iter().find(|(beginning, _)| bytes.starts_with(beginning));
    known.map(|(_, media_type)| *media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_how_they_begin() {
        assert_eq!(media_type_of(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(media_type_of(b"RIFF\0\0\0\0WAVE"), None);
        assert_eq!(media_type_of(b"%PDF-1.7"), Some("application/pdf"));
        assert_eq!(media_type_of(b""), None);
    }
}
