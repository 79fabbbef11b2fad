"""One Spark for all tests of this folder: a classic session, and through its plugin a Spark Connect session of the same JVM."""

import os
import shutil
import socket
import sys
from collections.abc import Generator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.version import Version

from headwater.logs import files
from headwater.spark.doors import DOORS, refuse_old
from headwater.spark.setup import SetupError

TESTS = Path(__file__).parent.parent
#: Files and folders here whose tests need a later Spark than the first doors do, and the door that is tried there.
DOORS_TRIED = {
    "dataframe_streams": "hw.aggregate of a streaming DataFrame",
    "streaming": "hw.stream",
    "test_bench_stream.py": "hw.stream",
    "test_check_stream.py": "hw.stream",
    "test_job.py": "hw.stream",
}
CLASSIC_FIRST = ["classic", pytest.param("connect", marks=pytest.mark.slow(reason="as in a classic session"))]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Pass by what the Spark that is installed cannot do; `make test-sparks` tries several."""
    door = DOORS_TRIED.get(collection_path.name)
    if door is None or collection_path.parent != Path(__file__).parent or find_spec("pyspark") is None:
        return None
    try:
        refuse_old(version("pyspark"), door)
    except SetupError:
        return True
    return None


def is_older(spark: tuple[int, ...]) -> bool:
    """Whether the Spark that is installed is older than this one."""
    return find_spec("pyspark") is not None and Version(version("pyspark")).release[:2] < spark


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A test that comes to a door which an older Spark has not goes no further; test_doors_by_version.py says which has which."""
    try:
        return (yield)
    except SetupError as error:
        if is_older(max(DOORS.values())):
            pytest.skip(str(error))
        raise


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets open until 4.2 that brought Arrow tables to it; that is no mistake of ours."""
    if not is_older((4, 2)):
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]


@pytest.fixture
def processes(tmp_path):
    """Processes of a test that starts a cluster or a driver of its own."""
    pytest.importorskip("pyspark")
    pytest.importorskip("psutil")
    from spark.clusters import Processes

    started = Processes(tmp_path)
    yield started
    started.close()


@pytest.fixture(scope="module")
def no_sync():
    """For tests in which drivers die, not machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "sync", lambda descriptor: None)
        patch.setattr(files, "sync_directory", lambda directory: None)
        yield


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """The address of a master and its two workers: started once, for all tests whose executors die."""
    pytest.importorskip("pyspark")
    pytest.importorskip("psutil")
    from spark.clusters import Processes, start_cluster

    started = Processes(tmp_path_factory.mktemp("cluster"))
    yield start_cluster(started)
    started.close()


@pytest.fixture(scope="session")
def connect_port() -> int:
    return free_port()


@pytest.fixture(scope="session")
def spark(connect_port, tmp_path_factory):
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java, which Spark needs")
    # Workers import headwater and the tests' own aggregates by their names.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(TESTS.parent / "src"), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        # Hundreds of small jobs, each with code of its own: compiling it well takes longer than running it.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "4",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(connect_port),
    }
    builder = sql.SparkSession.builder.master("local[2]").appName("headwater tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect(spark, connect_port):
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    from pyspark.sql.connect.session import SparkSession

    client = SparkSession.builder.remote(f"sc://localhost:{connect_port}").getOrCreate()
    yield client
    # Before the server goes: a client left alone asks for it for minutes.
    client.stop()


@pytest.fixture(scope="session", params=["classic", "connect"])
def session(request):
    """Either of them; where one will do for every change, `CLASSIC_FIRST` leaves Connect to the slow tests."""
    return request.getfixturevalue("spark" if request.param == "classic" else "connect")
