"""What Spark needs and does not find is said in one sentence, before anything starts. No Spark runs here."""

import pytest

import headwater as hw
from headwater.spark import setup as java
from headwater.spark.session import local_session


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
def test_a_java_that_is_too_old(says, sentence, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    fake_java(tmp_path, says)
    with pytest.raises(java.SetupError, match=sentence) as caught:
        java.check_java()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_will_do(version, tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    fake_java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    java.check_java()


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(hw.HeadwaterError, match=r"there is no Java .* and Spark needs Java 17 or newer: install one"):
        java.check_java()
    # As for Spark, a wrong JAVA_HOME is not made good by a Java on PATH.
    fake_java(tmp_path, 'openjdk version "17"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(java.SetupError, match=r"JAVA_HOME is '.*nowhere', where there is no bin/java"):
        java.check_java()


@pytest.mark.parametrize(
    ("versions", "sentence"),
    [
        ({"pyspark": "3.5.1"}, r"PySpark 3\.5\.1 is too old, headwater needs 4\.3 or newer: install with: pip"),
        ({"pyspark": "4.3.0", "pandas": None}, "pandas is not installed, which PySpark needs"),
        ({"pyspark": "4.3.0", "pandas": "3.0.0"}, r"pandas 3\.0\.0 is too new for PySpark 4\.3\.0: .*'pandas<3'"),
    ],
)
def test_libraries(versions, sentence, monkeypatch):
    monkeypatch.setattr(java, "find_spec", lambda name: name)
    monkeypatch.setattr(java, "_installed", versions.get)
    with pytest.raises(java.SetupError, match=sentence):
        local_session("never")
    monkeypatch.setattr(java, "_installed", {"pyspark": "4.10.1", "pandas": "2.3.1"}.get)
    java.check_libraries()


def test_no_pyspark(monkeypatch):
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(java.SetupError, match=r"PySpark is not installed: .*headwater\[spark\]"):
        java.check_libraries()
