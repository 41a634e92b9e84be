"""The HTML of answers: what it is made of, and its limits."""

from __future__ import annotations

import re

import pytest

from chatapp.rendering import rules, to_html
from chatapp.templatetags.markdown import markdown


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("one\ntwo\r\n\r\nthree", "<p>one\ntwo</p><p>three</p>"),
        ("# a\n### b\n##### c", "<h3>a</h3><h5>b</h5><h6>c</h6>"),
        ("- a\n- b", '<ul dir="auto"><li>a</li><li>b</li></ul>'),
        ("7. a\n\n8. b", '<ol dir="auto" start="7"><li><p>a</p></li><li><p>b</p></li></ol>'),
        ("- [ ] a\n- [x] b [x]", '<ul dir="auto"><li>☐ a</li><li>☑ b [x]</li></ul>'),
        ("[ ] a\n\n- [x]b", '<p>[ ] a</p><ul dir="auto"><li>[x]b</li></ul>'),
        ("<b>x</b> & y", "<p>&lt;b&gt;x&lt;/b&gt; &amp; y</p>"),
        ("a ~~b~~ **c**", "<p>a <s>b</s> <strong>c</strong></p>"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("nul\0", "<p>nul\ufffd</p>"),
        ("safe\u202egnp.exe", "<p>safe⟨U+202E⟩gnp.exe</p>"),
    ],
)
def test_text_becomes(text: str, html: str) -> None:
    assert to_html(text) == html
    assert markdown(text) == html


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("It costs $5 and $6.", []),
        ("US$5 to US$10, $HOME/$USER", []),
        ("$5 (about 4$)", []),
        ("$x^2$ and $2\\times 3$", ["x^2", "2\\times 3"]),
        ("\\(a\\) and \\[b\\]", ["a", "b"]),
        ("$$\na\n- b\n$$", ["a\n- b"]),
        ("Text:\n\\[\n= x\n\\]\nmore", ["= x"]),
        ("$$ never closed\n\nnext", []),
        ("`$a$` and \\$b\\$", []),
        ("$ a $ and $$ $$", []),
    ],
)
def test_formulas_and_money_are_told_apart(text: str, formulas: list[str]) -> None:
    assert re.findall(r'class="math[^"]*">([^<]*)<', to_html(text)) == formulas


def test_a_picture_is_a_link_that_names_its_host() -> None:
    for text in (
        "![cat](https://a.example/c.png?q=secret)",
        "![cat][1]\n\n[1]: https://a.example/c",
    ):
        html = to_html(text)
        assert "<img" not in html
        assert 'cat<span class="host"> (a.example)</span></a>' in html
    within = to_html("[![cat](https://a.example/c.png)](https://b.example)")
    assert within.count("<a ") == 1
    assert "a.example" not in within


def test_a_link_says_where_it_leads_and_tells_nobody_where_from() -> None:
    html = to_html("[google.com](https://evil.example/x 'google.com')")
    assert 'title="evil.example"' in html
    assert 'rel="noopener noreferrer nofollow" target="_blank"' in html
    assert 'google.com<span class="host"> (evil.example)</span></a>' in html


def test_code_keeps_its_letters_and_gets_colours() -> None:
    code = "\n\n  def f():\n\treturn '<b>'  \n\n"
    html = to_html(f"```python extra\n{code}```")
    assert '<figure class="code" data-language="python"><figcaption>python</figcaption>' in html
    assert 'aria-label="python code"' in html
    assert '<span class="k">def</span>' in html
    plain = re.sub(r"</?span[^>]*>", "", html)
    assert "<code>\n\n  def f():\n\treturn '&lt;b&gt;'  \n\n</code>" in plain.replace("&#39;", "'")
    assert "<span" not in to_html(f"```no-such-language\n{code}```")


def test_what_is_nested_deeper_than_the_limit_is_shown_as_it_was_typed() -> None:
    html = to_html(">" * 10_000 + " deep")
    assert html.count("<blockquote ") == rules.MAX_LEVEL
    assert html.count("&gt;") == 10_000 - rules.MAX_LEVEL
    assert "deep" in html
    nested = to_html("".join(f"{'  ' * n}- {n}\n" for n in range(200)))
    assert "199" in nested
    assert nested.count("<li>") <= rules.MAX_LEVEL


@pytest.mark.parametrize("text", ["*a* " * 80_000, "x" * 300_000 + "\n\n*y*"])
def test_a_text_that_is_too_long_is_shown_as_it_was_typed(text: str) -> None:
    html = to_html(text)
    assert "<em>" not in html
    assert text.split("\n\n")[-1].strip() in html


def test_a_paragraph_that_is_too_long_is_shown_as_it_was_typed() -> None:
    html = to_html("*a* " * 6_000 + "\n\n*b*")
    assert html.count("<em>") == 1
