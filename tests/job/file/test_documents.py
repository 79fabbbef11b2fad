"""Places in YAML, and what is no YAML."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.job.file.documents import parse_document, read_document
from headwater.job.file.problems import JobError


def test_values_know_where_they_stand_also_behind_aliases_and_merges():
    found = parse_document(
        "base: &b {path: out, type: folder}\nsinks:\n  load: {<<: *b, path: other}\n  aside: *b\n", "f"
    )
    assert found.found(["sinks", "load"]).value == {"path": "other", "type": "folder"}
    assert str(found.found(["sinks", "load", "path"]).place) == "f:3:24"
    assert found.found(["sinks", "aside"]).value == {"path": "out", "type": "folder"}


def test_names_are_what_is_written():
    assert list(parse_document("on: 1\nno: 2\n3: x\n", "f").value) == ["on", "no", "3"]


@pytest.mark.parametrize(("text", "sentence"), [
    ("", "f:1:1: the file is empty: headwater init writes one to begin with"),
    ("a: [1\nb: 2", "f:2:2: this is not YAML: expected ',' or ']', but got ':' (while parsing a flow sequence that begins at "
     "line 1)"),
    ("a: {b: 1\n", "f:2:1: this is not YAML: expected ',' or '}', but got '<stream end>' (while parsing a flow mapping that "
     "begins at line 1)"),
    ("x: 1\ra: {b: 1\n", "f:3:1: this is not YAML: expected ',' or '}', but got '<stream end>' (while parsing a flow mapping "
     "that begins at line 2)"),
    ("a: !!python/name:os.system x", "f:1:4: this is not YAML: could not determine a constructor for the tag "
     "'tag:yaml.org,2002:python/name:os.system'"),
    ("a: {x: ${B}}", "f:1:9: this is not YAML: expected ',' or '}', but got '{'; between braces a variable stands in quotes, "
     "'${NAME}'"),
    ("? [a]\n: 1", "f:1:3: a name is a list or a mapping: write plain text"),
    ("a: 1\nb: {x: 1, x: 2}\na: 3", "f:2:11: b.x stands here again: name each field once, it is in line 2\n"
     "f:3:1: a stands here again: name each field once, it is in line 1"),
    ("a: &a [*a]", "f:1:4: values stand in each other more than 60 deep"),
], ids=range(9))  # fmt: skip
def test_what_is_no_job_is_said_with_its_line(text, sentence):
    with pytest.raises(JobError) as caught:
        parse_document(text, "f")
    assert str(caught.value) == sentence


def test_very_deep_files_end_in_a_sentence():
    with pytest.raises(JobError):
        parse_document("[" * 100_000, "f")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "job.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JobError, match="the file is not UTF-8"):
        read_document(tmp_path / "job.yaml", "job.yaml")


@given(st.text("a:{}[],\n\r\u2028\"'&*!|>#- \t$", max_size=20))
def test_whatever_stands_in_a_file_is_a_document_or_a_sentence(text):
    with suppress(JobError):
        parse_document(text, "f")
