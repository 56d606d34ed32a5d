"""What can go wrong between a speaker and the tables.

StoreError
├── SpeakerNotFound      speaker_not_found
├── NameTaken            name_taken
├── KeyReused            key_reused
├── KeyNotFound          api_key_not_found
├── QuotaExceeded        quota_exceeded
├── BadName              bad_name
├── BadArgument          bad_clip, bad_labels, bad_cursor, bad_limit, bad_policy, bad_key
├── BadVector            bad_vector, wrong_encoder
├── ArchiveRefused       archive_refused
├── JobNotFound          job_not_found
├── TooManyJobs          too_many_jobs
├── StorageFull          storage_full, jobs_full
├── SchemaMismatch       schema_missing, schema_older, schema_newer
└── StoreUnavailable     store_unavailable
"""


class StoreError(Exception):
    """Base of the room. `code` is stable and machine-readable, `details` holds limits and measured figures."""

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class SpeakerNotFound(StoreError):
    """No such speaker, or no longer."""


class NameTaken(StoreError):
    """Another speaker has this name."""


class KeyReused(StoreError):
    """The key of a request was used before, for another request."""


class KeyNotFound(StoreError):
    """No API key has this id."""


class QuotaExceeded(StoreError):
    """A key has had as much as it may have; `details` say how much that is, and until when."""


class BadName(StoreError):
    """A name that is empty, too long, or has the form of a speaker id."""


class BadArgument(StoreError):
    """A clip's figures, labels, a cursor, a limit, a prune policy or a key's terms outside what the store takes."""


class BadVector(StoreError):
    """A vector that is not finite, not of norm 1, of the wrong width or of another encoder."""


class ArchiveRefused(StoreError):
    """An archive that is damaged, of another format, or that cannot be written; nothing of it was taken."""


class JobNotFound(StoreError):
    """No such job, or no longer."""


class TooManyJobs(StoreError):
    """As many jobs wait as may."""


class StorageFull(StoreError):
    """The disk, or the part of it that may be used, has no room; nothing was written."""


class SchemaMismatch(StoreError):
    """The database is not at the revision that this program needs."""


class StoreUnavailable(StoreError):
    """The database does not answer."""
