use proptest::prelude::*;

use super::*;

/// The specification of the module, in a slow and simple form.
fn plain(text: &str, limit: usize, keep: Keep) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let total = chars.len();
    if total <= limit {
        return Some(text.to_owned());
    }
    let widest = match keep {
        Keep::Head => format!("\n... (output truncated: {total} total chars, showing first {limit})"),
        Keep::Ends => {
            format!("\n... (output truncated: {total} total chars, showing first {limit} and last {limit})\n")
        }
        Keep::Tail => format!("[truncated {total} chars from start]\n"),
    };
    let shown = limit.checked_sub(widest.len())?;
    let take = |range: std::ops::Range<usize>| chars[range].iter().collect::<String>();
    Some(match keep {
        Keep::Head => {
            format!("{}\n... (output truncated: {total} total chars, showing first {shown})", take(0..shown))
        }
        Keep::Ends => {
            let (head, tail) = (shown.div_ceil(2), shown / 2);
            let notice =
                format!("... (output truncated: {total} total chars, showing first {head} and last {tail})");
            format!("{}\n{notice}\n{}", take(0..head), take(total - tail..total))
        }
        Keep::Tail => {
            format!("[truncated {} chars from start]\n{}", total - shown, take(total - shown..total))
        }
    })
}

const ALL: [Keep; 3] = [Keep::Head, Keep::Ends, Keep::Tail];

#[test]
fn a_text_within_its_limit_is_untouched() {
    for keep in ALL {
        assert_eq!(clip("пример", 6, keep), "пример");
        assert_eq!(clip("", 0, keep), "");
    }
}

/// TE12: the notice has the total and the shown number.
#[test]
fn notices_tell_both_numbers() {
    let text = "x".repeat(100);
    let head = clip(&text, 80, Keep::Head);
    assert!(head.ends_with("x\n... (output truncated: 100 total chars, showing first 22)"), "{head}");
    let ends = clip(&text, 90, Keep::Ends);
    assert!(
        ends.contains("x\n... (output truncated: 100 total chars, showing first 10 and last 9)\nx"),
        "{ends}"
    );
    let tail = clip(&text, 50, Keep::Tail);
    assert_eq!(tail, format!("[truncated 83 chars from start]\n{}", "x".repeat(17)));
}

/// TE24: a limit inside Cyrillic letters or emoji splits none and counts characters, not bytes.
#[test]
fn characters_are_never_split() {
    let text = "привет🙂мир🦀".repeat(30);
    for limit in 0..=text.chars().count() {
        for keep in ALL {
            assert!(clip(&text, limit, keep).chars().count() <= limit);
            assert!(!clip(&text, limit, keep).contains('\u{FFFD}'));
        }
    }
}

#[test]
fn a_limit_too_small_for_the_notice_still_holds() {
    assert_eq!(clip("a long text", 5, Keep::Tail), "[trun");
    assert_eq!(clip("a long text", 0, Keep::Ends), "");
}

#[test]
fn half_a_character_at_the_end_counts_as_one() {
    let mut clipper = Clipper::new(10, Keep::Ends);
    assert_eq!(clipper.push(b"a\xF0\x9F"), "a");
    assert_eq!(clipper.total(), 2);
    assert_eq!(clipper.render(10), "a\u{FFFD}");
    assert_eq!(clipper.total(), 2);
}

/// TE16: memory does not grow with the pushed text, in pieces of any size.
#[test]
fn holds_a_head_and_a_tail_and_no_more() {
    for size in [1, 7, 5000, 200_000] {
        let mut clipper = Clipper::new(1000, Keep::Ends);
        let piece = vec![b'y'; size];
        for _ in 0..2_000_000 / size {
            clipper.push(&piece);
        }
        let tail: usize = clipper.tail.pieces.iter().map(|(piece, _)| piece.capacity()).sum();
        assert!(clipper.head.capacity() + tail <= 8 * 1000 + 3 * PIECE, "{size}: {tail}");
        assert_eq!(clipper.total(), 2_000_000 / size * size);
    }
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let text = "[a-zа-я\n🙂]{0,300}".prop_map(String::into_bytes);
    prop_oneof![text, prop::collection::vec(any::<u8>(), 0..300)]
}

fn any_keep() -> impl Strategy<Value = Keep> {
    prop::sample::select(ALL.to_vec())
}

proptest! {
    /// The pieces of a text decode to the complete text, regardless of the cuts.
    #[test]
    fn pieces_decode_as_the_whole(bytes in any_bytes(), size in 1_usize..9) {
        let mut clipper = Clipper::new(1000, Keep::Head);
        let mut live: String = bytes.chunks(size).map(|piece| clipper.push(piece).into_owned()).collect();
        let whole = String::from_utf8_lossy(&bytes);
        prop_assert_eq!(clipper.total(), whole.chars().count());
        prop_assert_eq!(&clipper.render(1000), &whole);
        if live.chars().count() < whole.chars().count() {
            live.push('\u{FFFD}');
        }
        prop_assert_eq!(live, whole);
    }

    /// TE24: rendering does not panic, keeps to the limit, and equals the simple form.
    #[test]
    fn rendering_is_that_of_the_plain_way(
        bytes in any_bytes(), size in 1_usize..99, made in 0_usize..320, asked in 0_usize..320, keep in any_keep(),
    ) {
        let mut clipper = Clipper::new(made, keep);
        for piece in bytes.chunks(size) {
            clipper.push(piece);
        }
        let rendered = clipper.render(asked);
        let limit = made.min(asked);
        prop_assert!(rendered.chars().count() <= limit);
        if let Some(expected) = plain(&String::from_utf8_lossy(&bytes), limit, keep) {
            prop_assert_eq!(rendered, expected);
        }
    }
}
