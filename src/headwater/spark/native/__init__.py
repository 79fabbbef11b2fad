"""Plans of Spark's own operators, for queries that Spark answers under the same guarantees."""
