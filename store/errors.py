"""What can go wrong between a speaker and the tables.

StoreError
├── SpeakerNotFound      speaker_not_found
├── NameTaken            name_taken
├── KeyReused            key_reused
├── KeyNotFound          api_key_not_found
├── QuotaExceeded        quota_exceeded
├── ConsentNotFound      consent_not_found
├── ConsentRefused       consent_missing, consent_revoked, consent_insufficient, consent_voice_differs, consent_used
├── ProtectedNotFound    protected_not_found
├── VoiceProtected       voice_protected, protected_unheard
├── BadName              bad_name
├── BadArgument          bad_clip, bad_labels, bad_cursor, bad_limit, bad_policy, bad_key, bad_consent
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


class ConsentNotFound(StoreError):
    """No consent has this id."""


class ConsentRefused(StoreError):
    """The speaker lacks a consent that is worth what the settings ask for, or the one that was named is not for it."""


class ProtectedNotFound(StoreError):
    """No protected voice has this id."""


class VoiceProtected(StoreError):
    """The voice may not be enrolled, or nobody can tell whether it may; never whose it is."""


class BadName(StoreError):
    """A name that is empty, too long, or has the form of a speaker id."""


class BadArgument(StoreError):
    """A clip, labels, a cursor, a limit, a prune policy, a key's terms or a consent outside what the store takes."""


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
