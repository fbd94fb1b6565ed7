"""Ways in for results: streams of Redis, Kafka and NATS JetStream, read by workers.

One consumer (`consumer.py`) has the rules for all of them; one file for each broker has its commands and nothing else.
The client of a broker is imported when a stream of its kind is opened, and never before.
"""
