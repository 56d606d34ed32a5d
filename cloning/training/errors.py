"""What can go wrong while a voice is trained.

TrainingError
├── CorpusError          manifest_missing, bad_line, unreadable_clip, nothing_to_learn
├── PackError            pack_missing, pack_version
├── TrainingStopped      not_finite, storage_full
└── EvaluationError      judge_missing, nothing_to_judge, bad_sentences, bad_plan
"""

from cloning.errors import CloningError


class TrainingError(CloningError):
    """Base of what training raises."""


class CorpusError(TrainingError):
    """A manifest or a clip cannot be used; the message names the line or the file."""


class PackError(TrainingError):
    """A packed corpus is missing, damaged or of another version."""


class TrainingStopped(TrainingError):
    """Training cannot go on; the last good state is kept."""


class EvaluationError(TrainingError):
    """A voice cannot be judged: a judge, a speaker or a sentence is missing."""
