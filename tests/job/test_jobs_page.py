"""The page about job files: its example is a job, by the checks and by the schema."""

import re
from pathlib import Path

import jsonschema
import yaml

from headwater.job.file.description import Job
from headwater.job.file.job_file import load_job
from headwater.job.file.json_schema import job_schema

PAGE = (Path(__file__).parent.parent.parent / "docs" / "jobs.md").read_text(encoding="utf-8")


def test_the_whole_file_is_a_job_and_leaves_nothing_out_but_the_page(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "job.yaml").write_text(text)
    load_job(tmp_path / "job.yaml")
    jsonschema.Draft202012Validator(job_schema()).validate(yaml.safe_load(text))
    assert set(Job.__struct_fields__) - set(yaml.safe_load(text)) == {"page"}
