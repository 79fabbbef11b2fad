"""What headwater is installed with: versions within bounds, the oldest ones that are allowed, and jars that are known."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

#: SHA-256 of the bytes "known".
KNOWN = "7117fff2d0fd294462b3c802b7cb8753579f23f3946b99cf55f38e873f013f10"
ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
REQUIREMENTS = [Requirement(each) for some in (PROJECT["project"]["dependencies"], *EXTRAS.values()) for each in some]


def pins(text: str) -> dict[str, Version]:
    return {
        canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in text.splitlines())
    }


def test_every_library_has_a_lower_and_an_upper_bound():
    building = [Requirement(each) for each in PROJECT["build-system"]["requires"]]
    for requirement in (*building, *REQUIREMENTS):
        assert sorted(each.operator for each in requirement.specifier) == ["<", ">="], str(requirement)


def test_the_versions_that_setup_installs_lie_within_the_bounds():
    pinned = pins((ROOT / "constraints.txt").read_text())
    for requirement in REQUIREMENTS:
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, str(requirement)


def test_the_oldest_versions_are_those_that_the_bounds_begin_with():
    told = subprocess.run(
        [sys.executable, ROOT / "scripts" / "minimum_versions"], capture_output=True, text=True, check=True, timeout=60
    )
    oldest = pins(told.stdout)
    libraries = [PROJECT["project"]["dependencies"], *(some for name, some in EXTRAS.items() if name != "dev")]
    for requirement in (Requirement(each) for some in libraries for each in some):
        (begin,) = (each.version for each in requirement.specifier if each.operator == ">=")
        assert oldest[canonicalize_name(requirement.name)] == Version(begin), str(requirement)


@pytest.fixture
def kafka(tmp_path, monkeypatch):
    """The script, with the checksums of one jar."""
    script = runpy.run_path(str(ROOT / "scripts" / "kafka"), run_name="script")
    checksums = tmp_path / "kafka.sha256"
    checksums.write_text(f"{KNOWN}  broker-1/a.jar\n")
    script["check_jars"].__globals__["CHECKSUMS"] = checksums
    return script


def test_every_jar_of_the_broker_has_a_checksum():
    script = (ROOT / "scripts" / "kafka").read_text()
    version = re.search(r'^KAFKA = "(.+)"$', script, re.MULTILINE)[1]
    lines = (ROOT / "scripts" / "kafka.sha256").read_text().splitlines()
    assert all(re.fullmatch(rf"[0-9a-f]{{64}}  broker-{re.escape(version)}/\S+\.jar", line) for line in lines)
    assert any(f"/kafka_2.13-{version}.jar" in line for line in lines)


def test_a_jar_with_other_bytes_is_refused(kafka, tmp_path):
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a.jar").write_bytes(b"other")
    with pytest.raises(kafka["FailedError"], match=r"1 jars of broker-1 are not those .*: a\.jar should be"):
        kafka["check_jars"](jars, "broker-1")


@pytest.mark.parametrize("names", [[], ["a.jar", "b.jar"]], ids=["a jar is missing", "a jar is unknown"])
def test_other_jars_are_refused(kafka, tmp_path, names):
    jars = tmp_path / "jars"
    jars.mkdir()
    for name in names:
        (jars / name).write_bytes(b"known")
    with pytest.raises(kafka["FailedError"], match="are not those"):
        kafka["check_jars"](jars, "broker-1")


def test_the_known_jars_are_taken_and_those_of_another_spark_as_maven_found_them(kafka, tmp_path, capsys):
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a.jar").write_bytes(b"known")
    kafka["check_jars"](jars, "broker-1")
    assert capsys.readouterr().err == ""
    kafka["check_jars"](jars, "connector-9.9.9")
    assert "knows no jars of connector-9.9.9" in capsys.readouterr().err
