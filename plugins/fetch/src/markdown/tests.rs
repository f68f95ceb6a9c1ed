use super::*;

fn url() -> Url {
    Url::parse("https://example.com/docs/page.html").unwrap()
}

fn markdown(html: &str) -> String {
    convert_document(&haft_html::parse(html), &url()).text
}

#[track_caller]
fn becomes(html: &str, expected: &str) {
    assert_eq!(markdown(html), expected, "{html}");
}

#[test]
fn headings_paragraphs_and_lines() {
    becomes(
        "<h1> A  <b>title</b>\n</h1><p>One\n  two<p>three<br> four<br></p><hr>five",
        "# A **title**\n\nOne two\n\nthree\nfour\n\n---\n\nfive",
    );
    becomes("<h3></h3><h6>six<br>lines</h6><p> <p>&nbsp;</p>", "###### six lines");
    becomes("a<div>b</div>c<span>d</span><section><p>e</p></section>", "a\n\nb\n\ncd\n\ne");
}

#[test]
fn what_nobody_sees_is_left_out() {
    becomes(
        "<title>t</title><script>s()</script><style>x{}</style><p>a<!-- c --><noscript>n</noscript>\
         <template><p>t</template><svg><text>s</text></svg><textarea>t</textarea><button>Copy</button></p>",
        "a",
    );
    becomes("<p hidden>a<p aria-hidden=true>b<p style='color:red; Display : none'>c<p>d", "d");
    becomes("<p style='visibility:hidden!important'>a<p hidden=until-found>b<dialog>c</dialog>", "b");
    becomes("<h2><button>Heard</button></h2>", "## Heard");
}

#[test]
fn marks_are_around_the_words() {
    becomes(
        "<p>a<b> b </b>c <i></i><em>d</em>e <s>f</s> x<sup>2</sup> y<sup>[1]</sup>",
        "a **b** c *d*e ~~f~~ x^2 y[1]",
    );
    becomes("<p><b><i>a</i></b><b> </b><strong>b<br></strong>c", "***a*** **b**\nc");
    becomes(
        "<p>a <q>b</q>, use <code> x  y </code>, <kbd>`a`</kbd> and <tt></tt>.",
        "a “b”, use `x y` , `` `a` `` and .",
    );
    becomes("<p>snake_case * 2 [x] &lt;b&gt; &amp;lt; so&shy;ft", "snake_case * 2 [x] <b> &lt; soft");
}

#[test]
fn links_lead_somewhere_in_full() {
    becomes(
        "<p><a href='../x?a=1&amp;b=2'> up </a>,<a href=/y>y</a>, <a href='//h.test/z'>z</a>",
        "[up](https://example.com/x?a=1&b=2) ,[y](https://example.com/y), [z](https://h.test/z)",
    );
    becomes(
        "<p><a href='#part'>a</a> <a href='javascript:x()'>b</a> <a>c</a> <a href='/d'></a><a href=data:x>e</a>",
        "a b c e",
    );
    becomes(
        "<p><a href='https://a.test/'>https://a.test/</a> <a href='mailto:a@b.c'>m</a>",
        "https://a.test/ [m](mailto:a@b.c)",
    );
    becomes("<base href='/other/'><a href=x>x</a>", "[x](https://example.com/other/x)");
    becomes("<a href=/c><div><h3>Title</h3><p>and more</div></a>", "[Title and more](https://example.com/c)");
    becomes(
        "<p><a href=/i><img src=i.png alt='An\n image'></a><img src=x><img alt=y src=data:z>",
        "[![An image](https://example.com/docs/i.png)](https://example.com/i)![y]()",
    );
}

#[test]
fn lists_and_what_is_in_them() {
    becomes(
        "<ul><li>one<li><p>two</p><p>more</p><li></li><li>three<ul><li>a<li>b</ul></ul>",
        "- one\n- two\n\n  more\n- three\n  - a\n  - b",
    );
    becomes("<ol start=9><li>a<li>b<ul><li>c</ul></ol>", "9. a\n10. b\n    - c");
    becomes("<ul><li>a</li><ul><li>b</ul><li hidden>c</ul>", "- a\n  - b");
    becomes("<dl><dt>term<dd>meaning<dd><p>other</p><p>more</dl>", "term\n\n: meaning\n\n: other\n\n  more");
    becomes("<p>a<li>b", "a\n\nb");
}

#[test]
fn quotes_and_code() {
    becomes("<blockquote><p>a<p>b<blockquote>c</blockquote></blockquote>", "> a\n>\n> b\n>\n> > c");
    becomes(
        "<pre><code class='hljs language-rust'>fn main() {\n    <span>x</span>\n}\n\n</code></pre>",
        "```rust\nfn main() {\n    x\n}\n```",
    );
    becomes("<pre>\na<br>b ```\n</pre><pre> </pre>", "````\na\nb ```\n````");
    becomes("<div class='highlight highlight-source-shell'><pre>ls</pre></div>", "```shell\nls\n```");
}

#[test]
fn tables_of_data_and_of_layout() {
    becomes(
        "<table><caption>Sums</caption><thead><tr><th>a<th>b</thead><tr><td>1|2<td><a href=/x>x</a><tr><td>3</table>",
        "Sums\n\n| a | b |\n| --- | --- |\n| 1\\|2 | [x](https://example.com/x) |\n| 3 |  |",
    );
    becomes("<table><tr><td>one<tr><td>two</table>", "one\n\ntwo");
    becomes("<table role=presentation><tr><td>one<td>two</table>", "one\n\ntwo");
    becomes(
        "<table><tr><td>menu<td><table><tr><td>1<td>2</table></table>",
        "menu\n\n| 1 | 2 |\n| --- | --- |",
    );
    becomes("<table><tr><td><ul><li>x</ul><td>y</table>", "- x\n\ny");
    becomes("<table></table>a", "a");
}

#[test]
fn the_main_part_is_enough() {
    let long = "word ".repeat(60);
    let page =
        format!("<nav>menu</nav><header>top</header><main><h1>T</h1><p>{long}</main><footer>end</footer>");
    let readable = convert_document(&haft_html::parse(&page), &url());
    assert_eq!((readable.text, readable.is_part), (format!("# T\n\n{}", long.trim()), true));
    let of_parts = |html: &str| convert_document(&haft_html::parse(html), &url()).is_part;
    assert!(of_parts(&format!("menu<article>{long}</article>")));
    assert!(of_parts(&format!("menu<div role=main>{long}</div>")));
    assert!(!of_parts(&format!("<article>{long}</article><article>{long}</article>")));
    assert!(!of_parts("menu<main>short</main>"));
    assert!(!of_parts(&format!("menu<main hidden>{long}</main>")));
    assert!(!of_parts(&format!("menu<main><script>{long}</script></main>")));
}

/// Pages made to take all of the stack or of the memory are only odd.
#[test]
fn deep_pages_are_shown_all_the_same() {
    for (open, close) in [
        ("<div>", "</div>"),
        ("<blockquote>", "</blockquote>"),
        ("<ul><li>", "</ul>"),
        ("<b>", "</b>"),
        ("<table><tr><td>", "</table>"),
        ("<a><div>", "</div></a>"),
        ("<my-x>", "</my-x>"),
    ] {
        let count = if open == "<table><tr><td>" { 120 } else { 240 };
        let page = format!("{}deep\n{}end", open.repeat(count), close.repeat(count));
        let text = markdown(&page);
        assert!(text.contains("deep") && text.ends_with("end"), "{open}: {text}");
        assert!(text.len() < 20_000, "{open}: {}", text.len());
    }
}
