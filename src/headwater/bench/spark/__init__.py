"""`headwater bench spark`: windows on Spark against Spark's own."""
