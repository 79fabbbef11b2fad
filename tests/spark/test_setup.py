"""What Spark needs and does not find is said in one sentence, before anything starts. No Spark runs here."""

import pytest

import headwater as hw
from headwater.spark.session import local_session
from headwater.spark.setup import SetupError, check_java, check_libraries


def fake_java(folder, says):
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    command.chmod(0o755)
    return command


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ('openjdk version "11.0.2" 2019-01-15', r"a Java 11\.0\.2, and Spark needs 17 or newer: install one"),
        ('java version "1.8.0_292"', r"a Java 1\.8\.0_292, and Spark needs 17"),
        ("no such option", "does not say its version"),
    ],
)
def test_a_java_that_is_too_old_is_refused(says, sentence, tmp_path):
    fake_java(tmp_path, says)
    with pytest.raises(SetupError, match=sentence) as caught:
        check_java({"JAVA_HOME": str(tmp_path)})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_is_new_enough_is_taken_from_the_path(version, tmp_path):
    fake_java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    check_java({"PATH": f"{tmp_path / 'bin'}:/usr/bin"})


def test_no_java_is_said_with_what_to_install(tmp_path):
    with pytest.raises(hw.HeadwaterError, match=r"there is no Java .* and Spark needs Java 17 or newer: install one"):
        check_java({"PATH": str(tmp_path)})


def test_a_wrong_java_home_is_not_made_good_by_a_java_on_the_path(tmp_path):
    """As for Spark."""
    fake_java(tmp_path, 'openjdk version "17"')
    with pytest.raises(SetupError, match=r"JAVA_HOME is '.*nowhere', where there is no bin/java"):
        check_java({"PATH": str(tmp_path / "bin"), "JAVA_HOME": str(tmp_path / "nowhere")})


@pytest.mark.parametrize(
    ("versions", "sentence"),
    [
        ({}, r"PySpark is not installed: .*headwater\[spark-local\]"),
        ({"pyspark": "3.5.1"}, r"PySpark 3\.5\.1 is too old, headwater needs 4\.0 or newer: install with: pip"),
        ({"pyspark": "4.3.0"}, "pandas is not installed, which PySpark needs"),
        ({"pyspark": "4.3.0", "pandas": "3.0.0"}, r"pandas 3\.0\.0 is too new for PySpark 4\.3\.0: .*'pandas<3'"),
    ],
)
def test_libraries_that_do_not_fit_are_refused(versions, sentence):
    with pytest.raises(SetupError, match=sentence):
        check_libraries(versions.get)


def test_libraries_that_fit_are_taken():
    check_libraries({"pyspark": "4.10.1", "pandas": "2.3.1"}.get)


def test_a_session_is_not_begun_without_a_java(tmp_path, monkeypatch):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="where there is no bin/java"):
        local_session("never")
