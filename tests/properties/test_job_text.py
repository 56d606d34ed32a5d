"""Whatever a long text is: its passages are in order, apart, short enough, and hold all of its words."""

import re

from hypothesis import given
from hypothesis import strategies as st

from api.errors import RequestRefused
from api.jobs_text import read_script
from cloning.errors import TextRefused

_WORD = st.sampled_from(["Hello.", "so", "Mr.", '"Who?"', "x" * 70, "it's", "3.5", "end!", "Ünë", "*big*", "…", "a—b"])
_LINE = st.one_of(
    st.lists(_WORD, max_size=30).map(" ".join),
    st.sampled_from(["", "", "# A title", "Chapter 3", "* * *", "[speaker: Ada]", "[speaker: Bert] Yes.", "\t"]),
)
_TEXT = st.lists(_LINE, max_size=30).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
)
_TAG = re.compile(r"\[speaker: \w+\]")


@given(_TEXT, st.integers(20, 400))
def test_passages_hold_all_words_once_and_in_order(text: str, max_chars: int) -> None:
    try:
        passages = read_script(text, max_chars).passages
    except TextRefused:
        return
    at = 0
    for passage in passages:
        assert at <= passage.start < passage.stop <= len(text)
        assert passage.stop - passage.start <= max_chars
        assert text[passage.start : passage.stop].strip() == text[passage.start : passage.stop]
        left_out = _TAG.sub("", text[at : passage.start])
        assert not re.search(r"\w", left_out), left_out
        at = passage.stop
    assert not re.search(r"\w", _TAG.sub("", text[at:]))


@given(st.text(max_size=300), st.integers(1, 60))
def test_any_text_is_cut_or_refused(text: str, max_chars: int) -> None:
    try:
        passages = read_script(text, max_chars).passages
    except (TextRefused, RequestRefused):
        return
    assert all(passage.stop - passage.start <= max(max_chars, 1) for passage in passages)
