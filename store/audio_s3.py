"""The audio cache in a bucket of S3 or of a server that speaks as it does, shared by all servers of one database.

Who asks, and where the server stands, is what the library finds in its own variables and files (AWS_ENDPOINT_URL,
AWS_ACCESS_KEY_ID and the rest). A bucket is slow to ask: it spares the engine, not the listener.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from store.audio_cache import Bounds, PlaceFault
from store.audio_places import Entry, Trimmer

_CONNECT_S, _READ_S = 1.0, 3.0
_CONNECTIONS = 64
# What one call to delete may name.
_NAMES_PER_CALL = 1000


class BucketPlace:
    """Objects `PREFIX/STORE_ID/SPEAKER_ID/KEY`; the oldest go first, for a bucket knows no use."""

    is_shared = True

    def __init__(self, url: str, bounds: Bounds, store_id: str) -> None:
        parts = urlsplit(url)
        self._bucket, prefix = parts.netloc, parts.path.strip("/")
        self._prefix = f"{prefix}/{store_id}/" if prefix else f"{store_id}/"
        config = Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_READ_S,
            retries={"total_max_attempts": 1},
            max_pool_connections=_CONNECTIONS,
        )
        with _faults():
            self._client: Any = boto3.session.Session().client("s3", config=config)
        self._trimmer = Trimmer(bounds, self._entries, self._remove)

    def get(self, speaker_id: str, key: str) -> bytes | None:
        with _faults():
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=f"{self._prefix}{speaker_id}/{key}")
            except self._client.exceptions.NoSuchKey:
                return None
            data: bytes = answer["Body"].read()
            return data

    def put(self, speaker_id: str, key: str, data: bytes) -> None:
        with _faults():
            self._client.put_object(Bucket=self._bucket, Key=f"{self._prefix}{speaker_id}/{key}", Body=data)
            self._trimmer.add(len(data))

    def drop(self, speaker_ids: Collection[str]) -> None:
        with _faults():
            for speaker_id in speaker_ids:
                self._remove([entry.name for entry in self._entries(f"{speaker_id}/")])

    def speakers(self) -> set[str]:
        with _faults():
            pages = self._pages(self._prefix, Delimiter="/")
            folders = (found["Prefix"] for page in pages for found in page.get("CommonPrefixes", ()))
            return {folder.removeprefix(self._prefix).rstrip("/") for folder in folders}

    def sweep(self) -> None:
        with _faults():
            self._trimmer.sweep()

    def close(self) -> None:
        self._client.close()

    def _entries(self, below: str = "") -> Iterator[Entry]:
        for page in self._pages(self._prefix + below):
            for found in page.get("Contents", ()):
                yield Entry(found["LastModified"].timestamp(), found["Key"], found["Size"])

    def _remove(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), _NAMES_PER_CALL):
            chosen = [{"Key": name} for name in names[start : start + _NAMES_PER_CALL]]
            answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": chosen, "Quiet": True})
            for refused in answer.get("Errors", ()):
                raise PlaceFault(f"S3: {refused.get('Code')}: an object was not deleted")

    def _pages(self, prefix: str, **options: str) -> Iterator[dict[str, Any]]:
        pages: Iterator[dict[str, Any]] = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix, **options
        )
        return pages


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise PlaceFault(f"S3: {error}") from error
