//! The bearer token of the HTTP server, compared in constant time.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use haft_core::random;

/// Characters below which a token could be guessed.
const MIN_TOKEN: usize = 16;

/// A bearer token.
#[derive(Debug)]
pub struct Token(SecretString);

/// Why a text is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It could be guessed.
    #[error("the token is too short: expected at least {MIN_TOKEN} characters that nobody can guess")]
    TooShort,
    /// It cannot be sent.
    #[error("the token holds white space or characters that no HTTP header can carry")]
    NotAToken,
}

impl Token {
    /// A token that the user chose.
    pub fn new(token: SecretString) -> Result<Self, TokenError> {
        let text = token.expose_secret();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::NotAToken);
        }
        if text.len() < MIN_TOKEN { Err(TokenError::TooShort) } else { Ok(Self(token)) }
    }

    /// An unguessable token.
    pub fn generate() -> std::io::Result<Self> {
        Ok(Self(SecretString::from(random::name::<{ random::KEY }>()?)))
    }

    /// The token itself, to be shown to the person who configures the client.
    pub fn secret(&self) -> &SecretString {
        &self.0
    }

    /// The caller id of clients with this token: a digest, the same in every process with the same token.
    pub(super) fn caller_id(&self) -> String {
        let digest =
            Sha256::new().chain_update("haft token\0").chain_update(self.0.expose_secret()).finalize();
        BASE64_URL_SAFE_NO_PAD.encode(digest)
    }

    /// Whether a request shows it.
    pub(super) fn is_shown(&self, headers: &HeaderMap) -> bool {
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        let (Some(only), None) = (shown.next(), shown.next()) else { return false };
        let token = only.to_str().ok().and_then(|value| value.split_once(' '));
        token.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && self.matches(token.trim())
        })
    }

    /// Digests are compared: they have one length, and what they have in common with a guess says
    /// nothing of the token.
    fn matches(&self, token: &str) -> bool {
        let digests = [self.0.expose_secret(), token].map(Sha256::digest);
        let [own, other] = digests;
        own.iter().zip(other).fold(0, |difference, (own, other)| difference | (own ^ other)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Result<Token, TokenError> {
        Token::new(SecretString::from(text))
    }

    #[test]
    fn only_the_whole_token_is_it() {
        let own = token("0123456789abcdef").unwrap();
        let shown = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            own.is_shown(&headers)
        };
        assert!(shown(&["Bearer 0123456789abcdef"]) && shown(&["bearer  0123456789abcdef"]));
        for wrong in
            ["", "Bearer", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef", "Bearer 0123456789abcde"]
        {
            assert!(!shown(&[wrong]), "{wrong:?}");
        }
        assert!(!shown(&[]) && !shown(&["Bearer 0123456789abcdef", "Bearer x"]));
    }

    #[test]
    fn a_token_can_be_neither_guessed_nor_broken() {
        assert_eq!(token("short").unwrap_err(), TokenError::TooShort);
        assert_eq!(token("0123456789 abcdef").unwrap_err(), TokenError::NotAToken);
        assert_eq!(token("0123456789abcdéf").unwrap_err(), TokenError::NotAToken);
        let generated = Token::generate().unwrap();
        assert!(token(generated.secret().expose_secret()).is_ok());
    }
}
