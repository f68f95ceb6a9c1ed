use super::*;

fn shown(pieces: &[&str]) -> String {
    let mut terminal = Terminal::default();
    let mut text: String = pieces.iter().map(|piece| terminal.push(piece)).collect();
    text += &terminal.end();
    text
}

#[test]
fn output_is_what_a_terminal_shows_of_it() {
    for (output, expected) in [
        ("", ""),
        ("a", "a"),
        ("a\n", "a\n"),
        ("a\nb", "a\nb"),
        ("\n\na\n\n", "\n\na\n\n"),
        ("a  \n", "a  \n"),
        ("\ta\tb\n", "\ta\tb\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        // Progress bars.
        ("\r[1/3]\r[2/3]\r[3/3]\ndone\n", "[3/3]\ndone\n"),
        ("100%\r 20%\n", " 20%\n"),
        ("abc\rx\n", "xbc\n"),
        ("long line\r\x1b[Kx\n", "x\n"),
        ("long line\x1b[2K\rx\n", "x\n"),
        ("long\x1b[1K\rx\n", "x\n"),
        ("10%\x08\x08\x0820%\n", "20%\n"),
        ("a\x1b[1Gb\n", "b\n"),
        ("abc\x1b[2Dx\n", "axc\n"),
        ("a\x1b[3Cb\n", "a   b\n"),
        // Several lines.
        ("a 1\nb 1\n\x1b[2A\ra 2\nb 2\n", "a 2\nb 2\n"),
        ("a 1\nb 1\n\x1b[2F\x1b[Ja 2\n", "a 2\n"),
        ("a\nb\n\x1b[1A\x1b[2Kc\n", "a\nc\n"),
        ("a\nb\x1b[1;1Hx\x1b[2;1Hy\n", "x\ny\n"),
        ("a\x1b7b\x1b8c\n", "ac\n"),
        ("a\x1b[sb\x1b[uc\n", "ac\n"),
        ("old\n\x1b[H\x1b[2Jnew\n", "old\nnew\n"),
        ("old\n\x1b[H\x1b[Jnew\n", "old\nnew\n"),
        ("one\nx\x1bMy\n", "oye\nx"),
        // Escape sequences are not shown.
        ("\x1b[32mgreen\x1b[0m \x1b[1;38;5;9mred\x1b[m\n", "green red\n"),
        ("\x1b[38:2::1:2:3mx\x1b[0m\n", "x\n"),
        ("\x1b]0;title\x07a\n", "a\n"),
        ("\x1b]8;;http://a.test\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        ("\x1b[?25la\x1b[?25h\x1b[?2004h\n", "a\n"),
        ("\x1bPq#0;2;0;0;0\x1b\\a\n", "a\n"),
        ("\x1b(Ba\x1b=\x1b>\n", "a\n"),
        ("a\x07b\0c\td\n", "a\x07b\0c\td\n"),
        ("\x1b[1mb\x07\x1b[0m\0c\td\n", "b\x07\0c\td\n"),
        // From man pages.
        ("N\x08NA\x08A _\x08x\n", "NA x\n"),
        // An endless sequence hides at most its line.
        ("a\x1b]0;never\nb\n", "a\nb\n"),
        ("a\x1b[12\nb\n", "a\nb\n"),
        ("a\x1bP1;2\nb\n", "a\nb\n"),
        ("ж🦀\rз\n", "з🦀\n"),
    ] {
        assert_eq!(shown(&[output]), expected, "{output:?}");
        let pieces: Vec<String> = output.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        assert_eq!(shown(&pieces), expected, "in pieces: {output:?}");
    }
}

#[test]
fn a_bar_of_any_length_is_one_line() {
    let states: String = (1..=3000).map(|state| format!("\r[{state:4}/3000]")).collect();
    assert_eq!(shown(&[&states, "\ndone\n"]), "[3000/3000]\ndone\n");
}

#[test]
fn what_is_held_has_a_bound() {
    let mut terminal = Terminal::default();
    let lines: String = (0..200).map(|line| format!("{line}\n")).collect();
    let done = terminal.push(&lines);
    assert!(done.starts_with("0\n1\n") && done.ends_with(&format!("{}\n", 200 - HEIGHT)), "{done}");
    assert_eq!(done + &terminal.end(), lines);
    let lines = lines.repeat(3) + "end";
    assert_eq!(shown(&[&lines, "\x1b[1A\r\x1b[Kx\n"]), lines.replace("199\nend", "x\nend"));
    let long = "x".repeat(3 * MAX_LINE + 7);
    assert_eq!(shown(&[&long, "\r", "y\n"]), format!("{long}y\n"));
    let wide = "ж".repeat(MAX_LINE / 2);
    assert_eq!(shown(&[&wide, "\r", "y\n"]), wide.replacen('ж', "y", 1) + "\n");
    assert_eq!(shown(&["a\x1b[60000Cb\x1b[60000;60000Hc\n"]).lines().count(), HEIGHT);
    let never = format!("\x1b]{}\x1b[{}", "x".repeat(1 << 16), "1;".repeat(1 << 12));
    assert_eq!(shown(&[&never, "\na\n"]), "\na\n");
}
