"""`headwater bench stream`: streams on Spark against Spark's own."""
