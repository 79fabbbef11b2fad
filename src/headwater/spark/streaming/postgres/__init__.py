"""PostgreSQL as a sink of streams, through ADBC."""
