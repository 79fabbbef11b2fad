"""Kafka as the input of a stream and as its sink."""
