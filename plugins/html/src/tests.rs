use super::*;

/// The tree as text: elements with what is in them, texts as they are.
fn drawn(node: Node<'_>) -> String {
    let inside = node.children().map(drawn).collect::<Vec<_>>().concat();
    match (node.name(), node.characters()) {
        (Some(name), _) => format!("<{name}>{inside}</{name}>"),
        (None, Some(text)) => text.to_owned(),
        (None, None) => inside,
    }
}

fn body(html: &str) -> String {
    drawn(parse(html).first("body").unwrap())
}

#[test]
fn pages_are_parsed_as_browsers_parse_them() {
    for (html, expected) in [
        ("<p>a<p>b", "<body><p>a</p><p>b</p></body>"),
        ("<b>a<i>b</b>c</i>", "<body><b>a<i>b</i></b><i>c</i></body>"),
        ("<b><p>a</b>b", "<body><b></b><p><b>a</b>b</p></body>"),
        (
            "<table>x<tr><td>a<td>b</table>",
            "<body>x<table><tbody><tr><td>a</td><td>b</td></tr></tbody></table></body>",
        ),
        (
            "<table><b>a<tr>b</table>c",
            "<body><b>a</b><b>b</b><table><tbody><tr></tr></tbody></table><b>c</b></body>",
        ),
        ("a<!-- b -->c", "<body>ac</body>"),
        ("<template>a<b>c</b></template>d", "<body>d</body>"),
        ("<ul><li>a<li>b</ul>", "<body><ul><li>a</li><li>b</li></ul></body>"),
        ("<script>if (a < b) '</p>'</script>x", "<body><script>if (a < b) '</p>'</script>x</body>"),
    ] {
        let drawn = body(&format!("<!DOCTYPE html><body>{html}"));
        assert_eq!(drawn.replace("<template></template>", ""), expected, "{html}");
    }
}

/// WS02: entities are decoded once.
#[test]
fn entities_are_decoded_once() {
    let document = parse("<p title='&amp;lt;'>&amp;lt; &lt;b&gt; &#x41;&#66; &eacute; &unknown; &copy");
    let p = document.first("p").unwrap();
    assert_eq!(p.text(), "&lt; <b> AB é &unknown; ©");
    assert_eq!(p.attribute("title"), Some("&lt;"));
}

#[test]
fn white_space_is_that_of_a_page() {
    let document = parse("<p> a\n <b>b </b> c\u{a0} d <!-- x --> </p>");
    assert_eq!(document.first("p").unwrap().text(), "a b c\u{a0} d");
}

#[test]
fn classes_are_words() {
    let document = parse("<p class='result  result--ad\nx'>");
    let p = document.first("p").unwrap();
    assert!(p.has_class("result") && p.has_class("result--ad") && p.has_class("x"));
    assert!(!p.has_class("result--a") && !p.has_class(""));
}

#[test]
fn a_walk_stays_inside_and_in_order() {
    let document = parse("<div><p>1<b>2</b>3</p><ul><li>4</ul></div><p>5");
    let div = document.first("div").unwrap();
    let texts =
        |nodes: &mut dyn Iterator<Item = Node<'_>>| nodes.filter_map(Node::characters).collect::<String>();
    assert_eq!(texts(&mut div.descendants()), "1234");
    assert_eq!(texts(&mut div.descendants_unless(|node| node.name() == Some("b"))), "134");
    assert_eq!(texts(&mut div.descendants_unless(|node| node.name() == Some("p"))), "4");
    let li = document.first("li").unwrap();
    let around: Vec<_> = li.ancestors().filter_map(Node::name).collect();
    assert_eq!(around, ["ul", "div", "body", "html"]);
    assert_eq!(li.descendants().count(), 1);
}

/// Pages made to take all time or memory are cut, quickly.
#[test]
fn hostile_pages_are_cut() {
    let started = std::time::Instant::now();
    let numbered = (0..20_000).map(|number| format!("<b a={number}>")).collect::<Vec<_>>().concat();
    for html in [
        "<div>".repeat(500_000),
        "<b>".repeat(500_000),
        "<a>".repeat(1_000_000),
        "<table>".repeat(300_000),
        format!("{numbered}{}", "<p>".repeat(200_000)),
        "<p>x".repeat(500_000),
    ] {
        let document = parse(&html);
        assert!(document.is_cut(), "{}", html.get(..20).unwrap());
        assert!(document.nodes.len() < 5 * MAX_NODES, "{} {}", html.get(..20).unwrap(), document.nodes.len());
    }
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    assert!(!parse(&"<p>word <b>word</b></p>".repeat(10_000)).is_cut());
}
