"""The public names: what `import headwater` and `headwater.spark` offer, name by name."""

import subprocess
import sys

import pytest

import headwater as hw

NAMES = """
    Aggregate DataError Engine FormatError HeadwaterError Local Operator Page ProcessingFunction Query QueryError
    Results WindowRead WindowedCRDT WindowedLocal aggregate aggregate_of apply approx_distinct approx_quantile arrival
    avg band between by_query col collect count count_distinct count_sliding count_tumbling crdts custom distinct
    epoch explain first flow foreach_batch from_disco from_json from_yaml geometric_mean holon iso last load max
    max_by median min min_by mode postgres product punctuated quantile query read register rows run session ship
    sliding stddev stream sum testing to_json to_table to_yaml top tumbling value_range variance when_final
""".split()
SPARK_NAMES = """
    FolderSink KafkaInput KafkaSink LogSink SinkError Stream StreamError StreamStatus aggregate by_query read register
    split_output
""".split()


def test_headwater_offers_these_names_and_no_others():
    assert hw.__all__ == NAMES
    for name in NAMES:
        assert getattr(hw, name) is not None


def test_headwater_spark_offers_these_names_and_no_others():
    import headwater.spark

    assert headwater.spark.__all__ == SPARK_NAMES
    for name in SPARK_NAMES:
        assert getattr(headwater.spark, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        headwater.spark.nothing  # noqa: B018


def test_importing_headwater_imports_neither_spark_nor_kafka():
    code = "import sys, headwater, headwater.spark; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyspark", "confluent_kafka", "hypothesis"} & set(done.stdout.split())
