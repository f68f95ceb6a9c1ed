//! Tells what of a stream has come, as far as it is text: characters are not cut in two.

use super::received::Received;
use crate::call::Call;
use haft_core::event::Event;

/// Pieces of one answer that are told; a guest that makes more makes them for nobody who reads.
const MAX_PIECES: usize = 10_000;

/// How much of a stream was told.
#[derive(Default)]
pub(super) struct Teller {
    bytes: usize,
    values: usize,
    pieces: usize,
    /// What came is no text: only how much has come is told.
    is_binary: bool,
}

impl Teller {
    /// Tells what is new.
    pub(super) fn tell(&mut self, call: &Call, received: &Received) {
        if self.pieces >= MAX_PIECES || !call.events.has_listener() {
            return;
        }
        let text = self.new_text(received.bytes()) + &self.new_values(received);
        if !text.is_empty() {
            self.pieces += 1;
            call.events.emit(|| Event::Partial { call: call.id.clone(), text });
        } else if self.is_binary {
            self.pieces += 1;
            #[expect(clippy::cast_precision_loss, reason = "a count for display")]
            let done = received.bytes().len() as f64;
            let (id, message) = (call.id.clone(), String::new());
            call.events.emit(|| Event::Progress { call: id, done, total: None, message });
        }
    }

    /// The characters that have come whole.
    fn new_text(&mut self, bytes: &[u8]) -> String {
        let new = bytes.get(self.bytes..).unwrap_or_default();
        let text = match str::from_utf8(new) {
            _ if self.is_binary => return String::new(),
            Ok(text) => text,
            Err(error) if error.error_len().is_some() => {
                self.is_binary = true;
                return String::new();
            }
            Err(error) => new
                .get(..error.valid_up_to())
                .and_then(|whole| str::from_utf8(whole).ok())
                .unwrap_or_default(),
        };
        self.bytes += text.len();
        text.to_owned()
    }

    /// The values, one a line.
    fn new_values(&mut self, received: &Received) -> String {
        let new = received.values().get(self.values..).unwrap_or_default();
        self.values += new.len();
        new.iter().map(|value| format!("{value}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_told_whole() {
        let mut teller = Teller::default();
        let bytes = "aü€b".as_bytes();
        let told: Vec<String> = (1..=bytes.len()).map(|length| teller.new_text(&bytes[..length])).collect();
        assert_eq!(told, ["a", "", "ü", "", "", "€", "b"]);
        assert_eq!(teller.new_text(b"a\xff"), "");
        let mut teller = Teller::default();
        assert_eq!((teller.new_text(b"a\xff"), teller.is_binary), (String::new(), true));
    }
}
