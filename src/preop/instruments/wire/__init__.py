"""The wire: an HTTP/1.1 client that keeps every read with its time, and what the reads say."""
