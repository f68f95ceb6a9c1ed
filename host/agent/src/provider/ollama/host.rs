//! Parses the address of an Ollama server from the format of its own variable. Reads no environment variable
//! itself.

/// The environment variable of Ollama's own programs.
pub const HOST_VARIABLE: &str = "OLLAMA_HOST";
/// The default port.
const DEFAULT_PORT: u16 = 11434;

/// Parses scheme, host and port from the value of `OLLAMA_HOST`: a host, a port or a URL, each with the defaults
/// for the missing parts. An address that stands for all interfaces becomes the loopback address.
pub fn host(address: &str) -> (&'static str, String, u16) {
    let address = address.trim();
    let (scheme, address) = match address.split_once("://") {
        Some(("https", rest)) => ("https", rest),
        Some((_, rest)) => ("http", rest),
        None => ("http", address),
    };
    let address = address.split(['/', '?', '#']).next().unwrap_or_default();
    // Drop the user name and password.
    let address = address.rsplit('@').next().unwrap_or_default();
    let (address, port) = match address.rsplit_once(':') {
        // More colons are part of an IPv6 address (`::1`), unless it is in brackets.
        Some((before, after)) if !before.contains(':') || before.ends_with(']') => {
            (before, after.parse().ok())
        }
        _ => (address, None),
    };
    let address = address.trim_matches(['[', ']']);
    let address = if matches!(address, "" | "0.0.0.0" | "::") { "127.0.0.1" } else { address };
    let default = if scheme == "https" { 443 } else { DEFAULT_PORT };
    (scheme, address.to_owned(), port.unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_is_where_its_own_variable_says() {
        let at = |address: &str| {
            let (scheme, host, port) = host(address);
            format!("{scheme} {host} {port}")
        };
        assert_eq!(at(""), "http 127.0.0.1 11434");
        assert_eq!(at("0.0.0.0"), "http 127.0.0.1 11434");
        assert_eq!(at(":8080"), "http 127.0.0.1 8080");
        assert_eq!(at("box"), "http box 11434");
        assert_eq!(at("https://ada:pw@box:1/v1?x"), "https box 1");
        assert_eq!(at("https://box"), "https box 443");
        assert_eq!(at("[::1]:2"), "http ::1 2");
        assert_eq!(at("::1"), "http ::1 11434");
        assert_eq!(at("[::]"), "http 127.0.0.1 11434");
    }
}
