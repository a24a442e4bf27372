"""The downloader middleware and its helpers."""
