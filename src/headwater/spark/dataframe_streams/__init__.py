"""`hw.aggregate` of a streaming DataFrame: roots inside Spark's stateful operator."""
