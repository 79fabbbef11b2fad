"""Places named by text: what has a scheme is never a local folder."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DataError
from headwater.language.places import is_table_name, local_path

SCHEMES = (
    st.text(string.ascii_letters + string.digits + "+.-", min_size=1)
    .map("x".__add__)
    .filter(lambda scheme: scheme.lower() != "file")
)


@given(SCHEMES, st.sampled_from(["://", ":/", ":///"]), st.text())
def test_a_text_with_a_scheme_is_refused_as_text_and_as_a_path(scheme, slashes, rest):
    text = f"{scheme}{slashes}{rest}"
    with pytest.raises(DataError, match="is not served; give a folder"):
        local_path("sink", text, "give a folder")
    if "\0" not in rest and rest.strip("/."):
        # Path takes slashes away.
        with pytest.raises(DataError, match="is not served"):
            local_path("sink", Path(text), "give a folder")


@given(st.text().filter(lambda text: ":/" not in text))
def test_a_text_without_a_scheme_is_the_path_it_says(text):
    assert local_path("sink", text, "") == Path(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///tmp/x", "/tmp/x"),
        ("file:/tmp/x", "/tmp/x"),
        ("FILE://localhost/tmp/x", "/tmp/x"),
        ("file:///tmp/a%20b/day=1", "/tmp/a b/day=1"),
        ("./s3:/bucket", "s3:/bucket"),
        ("C:/data", "C:/data"),
        ("at 10:/00", "at 10:/00"),
    ],
)
def test_file_urls_and_odd_names_are_paths(text, path):
    assert local_path("source", text, "") == Path(path)


def test_a_file_of_another_machine_is_refused():
    with pytest.raises(DataError, match="'data' would be another machine; give file:///data/x"):
        local_path("source", "file://data/x", "")


@given(st.text())
def test_what_has_a_slash_is_no_table(text):
    assert not is_table_name(f"./{text}")
