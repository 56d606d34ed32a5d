"""Every error code of every room, by the class that carries it."""

from collections.abc import Mapping

import api.errors as api_errors
import cloning.errors as cloning_errors
import encoder.errors as encoder_errors
import store.errors as store_errors

_CODES_OF: Mapping[type[Exception], str] = {
    api_errors.RequestRefused: "missing_field bad_field bad_labels bad_multipart too_many_clips verify_needs_whole "
    "bad_tag",
    api_errors.NotOffered: "settings_not_kept prompts_not_offered",
    api_errors.NotCalibrated: "not_calibrated",
    api_errors.TooLarge: "too_large",
    api_errors.FormatUnknown: "format_unknown",
    api_errors.ModelUnknown: "model_unknown",
    api_errors.AccessRefused: "key_missing key_wrong key_expired key_revoked scope_missing admin_disabled "
    "origin_refused",
    api_errors.RateLimited: "rate_limited",
    api_errors.NotReady: "starting draining",
    api_errors.TooBusy: "too_busy",
    api_errors.OutOfTurn: "not_begun after_close",
    api_errors.Idle: "idle",
    api_errors.JobInaudible: "job_not_done job_inaudible",
    api_errors.WordsRefused: "consent_words_differ consent_language consent_statement",
    api_errors.RecogniserMissing: "recogniser_missing",
    api_errors.ServerRefused: "server_unreachable server_failed",
    api_errors.SettingsError: "settings_invalid",
    encoder_errors.UnreadableAudio: "empty no_audio bad_container unsupported_format decode_timeout",
    encoder_errors.AudioTooLong: "too_many_bytes decoded_too_long",
    encoder_errors.UnusableSpeech: "no_speech too_little_speech",
    cloning_errors.TextRefused: "nothing_to_say text_too_long bad_markup bad_lexicon",
    cloning_errors.LanguageUnsupported: "language_unsupported",
    cloning_errors.BadConditioning: "wrong_encoder bad_vector",
    cloning_errors.BundleError: "bundle_missing bundle_corrupt bundle_version bundle_mismatch",
    cloning_errors.EngineError: "engine_failed engine_unavailable",
    cloning_errors.SynthesisFailed: "synthesis_failed",
    cloning_errors.Overloaded: "queue_full deadline_missed cancelled closed",
    store_errors.SpeakerNotFound: "speaker_not_found",
    store_errors.NameTaken: "name_taken",
    store_errors.KeyReused: "key_reused",
    store_errors.KeyNotFound: "api_key_not_found",
    store_errors.QuotaExceeded: "quota_exceeded",
    store_errors.ConsentNotFound: "consent_not_found",
    store_errors.ConsentRefused: "consent_missing consent_revoked consent_insufficient "
    "consent_voice_differs consent_used",
    store_errors.ProtectedNotFound: "protected_not_found",
    store_errors.VoiceProtected: "voice_protected protected_unheard",
    store_errors.BadName: "bad_name",
    store_errors.BadArgument: "bad_clip bad_labels bad_cursor bad_limit bad_policy bad_key bad_consent",
    store_errors.ArchiveRefused: "archive_refused",
    store_errors.JobNotFound: "job_not_found",
    store_errors.TooManyJobs: "too_many_jobs",
    store_errors.StorageFull: "storage_full jobs_full",
    store_errors.SchemaMismatch: "schema_missing schema_older schema_newer",
    store_errors.StoreUnavailable: "store_unavailable",
}
CODES: Mapping[str, type[Exception]] = {
    code: error_type for error_type, codes in _CODES_OF.items() for code in codes.split()
}
