//! The parent of an operation across processes: `traceparent` and `tracestate` (W3C Trace Context). Invalid values
//! are ignored, as the recommendation requires.

use std::fmt;
use std::sync::Arc;

use crate::encoding::hex;

/// How many characters of `tracestate` are passed on: the minimum of the recommendation.
const MAX_STATE: usize = 512;

/// The length of `traceparent` in version 0 in bytes; later versions are longer.
const LENGTH: usize = 55;

/// The parent of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace id; not all zero.
    pub trace: [u8; 16],
    /// The span id; not all zero.
    pub span: [u8; 8],
    /// Whether the trace is sampled.
    pub is_sampled: bool,
    /// The unmodified `tracestate` of other systems.
    pub state: Option<Arc<str>>,
}

impl TraceParent {
    /// Parses the two headers.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let bytes = traceparent.as_bytes();
        let version = bytes_of::<1>(bytes.get(..2)?)?[0];
        let is_long = version > 0 && bytes.get(LENGTH) == Some(&b'-');
        let is_whole = bytes.len() == LENGTH || is_long;
        let has_dashes = [2, 35, 52].iter().all(|at| bytes.get(*at) == Some(&b'-'));
        let trace = bytes_of::<16>(bytes.get(3..35)?)?;
        let span = bytes_of::<8>(bytes.get(36..52)?)?;
        let [flags] = bytes_of::<1>(bytes.get(53..LENGTH)?)?;
        let is_one = version != u8::MAX && is_whole && has_dashes && trace != [0; 16] && span != [0; 8];
        let state = tracestate.filter(|state| state.len() <= MAX_STATE && !state.is_empty());
        let state = state.filter(|state| state.bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
        is_one.then(|| Self { trace, span, is_sampled: flags & 1 == 1, state: state.map(Into::into) })
    }
}

impl TraceParent {
    /// Returns the parent as environment variables, for a process that is a part of the operation.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let state = self.state.as_deref().map(|state| ("TRACESTATE", state.to_owned()));
        std::iter::once(("TRACEPARENT", self.to_string())).chain(state)
    }
}

/// Writes `traceparent`.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", hex(&self.trace), hex(&self.span), u8::from(self.is_sampled))
    }
}

/// Parses `COUNT` bytes in lower-case hexadecimal.
fn bytes_of<const COUNT: usize>(text: &[u8]) -> Option<[u8; COUNT]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; COUNT];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    (text.len() == COUNT * 2).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_comes_back_as_it_was() {
        let parent = TraceParent::parse(GOOD, Some("a=1")).unwrap();
        assert!(parent.is_sampled && parent.state.as_deref() == Some("a=1"));
        assert_eq!(parent.to_string(), GOOD);
        let later = GOOD.replacen("00", "01", 1) + "-more";
        assert_eq!(TraceParent::parse(&later, None).unwrap().to_string(), GOOD);
    }

    #[test]
    fn what_is_not_in_order_is_not_there() {
        let zero = |at: std::ops::Range<usize>| {
            let mut text = GOOD.to_owned();
            text.replace_range(at.clone(), &"0".repeat(at.len()));
            text
        };
        for wrong in [
            "",
            "00",
            &GOOD.to_uppercase(),
            GOOD.get(..54).unwrap(),
            &format!("{GOOD}-more"),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replace('-', "_"),
            &zero(3..35),
            &zero(36..52),
            &GOOD.replace("0af", "0aé"),
        ] {
            assert_eq!(TraceParent::parse(wrong, None), None, "{wrong}");
        }
        let state = |state: &str| TraceParent::parse(GOOD, Some(state)).unwrap().state;
        assert_eq!((state(&"x".repeat(600)), state("a\r\nb"), state("")), (None, None, None));
    }
}
