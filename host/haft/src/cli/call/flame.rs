//! A flame graph: where the time of a call went, one box a function, as wide as it was seen often.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Pixels.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const TITLE: f64 = 30.0;

/// Pixels of a box below which it is not drawn, and of a character of a name.
const LEAST: f64 = 0.4;
const CHARACTER: f64 = 6.8;

/// A function in the functions that called it.
#[derive(Default)]
struct Node {
    times: u64,
    called: BTreeMap<String, Node>,
}

/// One line a stack, functions separated by `;`, and how often it was seen: what other programs draw and compare.
pub(super) fn folded(stacks: &[(Vec<String>, u64)]) -> String {
    stacks
        .iter()
        .map(|(stack, times)| format!("{} {times}\n", stack.join(";").replace(['\n', '\r'], " ")))
        .collect()
}

/// The picture, as SVG.
pub(super) fn draw(title: &str, stacks: &[(Vec<String>, u64)]) -> String {
    let mut root = Node::default();
    for (stack, times) in stacks {
        root.times += times;
        let mut node = &mut root;
        for function in stack {
            node = node.called.entry(function.clone()).or_default();
            node.times += times;
        }
    }
    let depth = stacks.iter().map(|(stack, _)| stack.len()).max().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "pixels of a picture")]
    let height = TITLE + (depth + 1) as f64 * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"8\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let all = root.times;
    root.draw(&mut svg, ("all", all), (0.0, TITLE));
    svg.push_str("</svg>\n");
    svg
}

impl Node {
    /// Draws it and below it what it called.
    fn draw(&self, svg: &mut String, (name, all): (&str, u64), (x, y): (f64, f64)) {
        #[expect(clippy::cast_precision_loss, reason = "pixels of a picture")]
        let share = self.times as f64 / all.max(1) as f64;
        let width = share * WIDTH;
        if width < LEAST {
            return;
        }
        let (told, shown) = (escaped(name), escaped(&fitting(name, width)));
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            svg,
            "<g><title>{told}: {:.1} %, seen {} times</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" fill=\"{}\"/>\
             <text x=\"{:.2}\" y=\"{}\">{shown}</text></g>",
            share * 100.0,
            self.times,
            width - 0.2,
            ROW - 1.0,
            colour(name),
            x + 3.0,
            y + 12.0
        );
        let mut x = x;
        for (name, called) in &self.called {
            called.draw(svg, (name, all), (x, y + ROW));
            #[expect(clippy::cast_precision_loss, reason = "pixels of a picture")]
            let share = called.times as f64 / all.max(1) as f64;
            x += share * WIDTH;
        }
    }
}

/// As much of a name as there is room for; nothing where that says nothing.
fn fitting(name: &str, width: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width in characters")]
    let room = (width / CHARACTER) as usize;
    match name.chars().count() {
        count if count <= room => name.to_owned(),
        _ if room < 4 => String::new(),
        _ => name.chars().take(room - 1).chain(['…']).collect(),
    }
}

/// A warm colour that is a function's own.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("hsl({}, 80%, {}%)", 10 + hash % 45, 62 + hash / 64 % 14)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_as_wide_as_its_function_was_seen() {
        let stack = |names: &[&str], times| (names.iter().map(|name| (*name).to_owned()).collect(), times);
        let stacks = [stack(&["main", "<parse>"], 3), stack(&["main"], 1)];
        assert_eq!(folded(&stacks), "main;<parse> 3\nmain 1\n");
        let svg = draw("a & b", &stacks);
        assert!(svg.contains("a &amp; b") && svg.contains("&lt;parse&gt;: 75.0 %, seen 3 times"), "{svg}");
        assert!(svg.contains("main: 100.0 %, seen 4 times") && svg.contains("width=\"899.80\""), "{svg}");
        assert_eq!(svg.matches("<g>").count(), 3);
    }
}
