"""A Kafka cluster of one broker, as librdkafka brings it for tests, in a process of its own.

It speaks Kafka's protocol, with consumer groups, and keeps its topics in memory. It prints where it listens, then obeys
each line that it reads: `down` refuses and resets all connections, as a broker that is restarted; `up` ends that.
"""

import ctypes
import sys
from pathlib import Path

import confluent_kafka

PRODUCER = 0
BROKER = 1


def load() -> ctypes.CDLL:
    """Load the library that the wheel of confluent-kafka brings."""
    folder = Path(confluent_kafka.__file__).parent
    (found,) = [
        *(folder.parent / "confluent_kafka.libs").glob("librdkafka*"),
        *folder.glob(".dylibs/librdkafka*"),
    ]
    library = ctypes.CDLL(str(found))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


def main() -> None:
    library = load()
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    error = ctypes.create_string_buffer(512)
    client = ctypes.c_void_p(library.rd_kafka_new(PRODUCER, settings, error, len(error)))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, BROKER))
    library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0)
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        match line.split():
            case ["down"]:
                failed = library.rd_kafka_mock_broker_set_down(cluster, BROKER)
            case ["up"]:
                failed = library.rd_kafka_mock_broker_set_up(cluster, BROKER)
            case ["topic", name, partitions]:
                failed = library.rd_kafka_mock_topic_create(cluster, name.encode(), int(partitions), 1)
            case other:
                raise ValueError(f"expected down, up or topic, found {other}")
        print("failed" if failed else "done", flush=True)


if __name__ == "__main__":
    main()
