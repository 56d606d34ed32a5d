"""A finished job as files: audio with its true length and its chapters, and when what is heard. Piece by piece, so that
an hour takes no more memory than a minute. Knows nothing of HTTP."""

import json
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from api.audio_lengths import wav_size
from api.audio_out import FORMATS, M4A, AudioFormat, Chapter, find_format, open_m4a, open_stream
from api.errors import JobInaudible
from api.jobs import Heard
from api.jobs_pieces import SoundPiece, shifted, unpacked
from api.subtitles import written
from api.timing import SentenceOut, sentences_out
from store.jobs import Jobs as StoredJobs
from store.jobs_types import DONE, Piece

JOB_FORMATS = {**FORMATS, M4A.name: M4A}
_CHUNK_BYTES = 2**18
TIMES = {"json": "application/json", "srt": "application/x-subrip", "vtt": "text/vtt"}


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file as it is made; empty parts say that it goes on. Closing `parts` ends it."""

    media_type: str
    ending: str
    parts: Generator[bytes, None, None]
    n_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class JobFiles:
    """Files of finished jobs."""

    jobs: StoredJobs

    def audio(self, heard: Heard, format_name: str) -> JobFile:
        """The whole recording. Raises: FormatUnknown; JobInaudible, also later, where a piece is damaged."""
        audio_format = find_format(format_name, JOB_FORMATS)
        if audio_format is M4A:
            return JobFile(M4A.media_type, M4A.name, self._m4a(heard))
        n_bytes = wav_size(heard.job.n_samples) if audio_format.name == "wav" else None
        return JobFile(audio_format.media_type, audio_format.name, self._encoded(heard, audio_format), n_bytes)

    def times(self, heard: Heard, kind: str) -> JobFile:
        """When what is heard, as one of `TIMES`. Raises: as `audio`."""
        make: Callable[[Heard], Iterator[str]] = self._json if kind == "json" else lambda h: self._subtitles(h, kind)
        return JobFile(TIMES[kind], kind, (block.encode() for block in make(heard)))

    def _encoded(self, heard: Heard, audio_format: AudioFormat) -> Generator[bytes, None, None]:
        encoder = open_stream(heard.sample_rate, audio_format, heard.job.n_samples)
        for _, sound in self._sounds(heard, with_times=False):
            yield encoder.write(sound.samples)
        yield encoder.finish()

    def _m4a(self, heard: Heard) -> Generator[bytes, None, None]:
        """Made whole before its first byte, since its head says where everything is; in a file without a name."""
        with tempfile.TemporaryFile() as file:
            encoder = open_m4a(heard.sample_rate, file, chapters_of(heard))
            for _, sound in self._sounds(heard, with_times=False):
                encoder.write(sound.samples)
                yield b""
            encoder.finish()
            file.seek(0)
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def _json(self, heard: Heard) -> Iterator[str]:
        head = {"text": self.jobs.text(heard.job.id), "chapters": [_document(each) for each in chapters_of(heard)]}
        yield json.dumps(head, ensure_ascii=False).removesuffix("}") + ', "sentences": ['
        for number, sentence in enumerate(self._sentences(heard, head["text"])):
            yield ("\n" if number == 0 else ",\n") + json.dumps(sentence.model_dump(), ensure_ascii=False)
        yield "\n]}\n"

    def _subtitles(self, heard: Heard, kind: str) -> Iterator[str]:
        text = self.jobs.text(heard.job.id)
        yield from written(kind, text, self._sentences(heard, text))

    def _sentences(self, heard: Heard, text: object) -> Iterator[SentenceOut]:
        starts = heard.starts()
        for piece, sound in self._sounds(heard):
            placed = (shifted(each, starts[piece.number], piece.start_char) for each in sound.sentences)
            yield from sentences_out(str(text), placed, heard.sample_rate)

    def _sounds(self, heard: Heard, with_times: bool = True) -> Iterator[tuple[Piece, SoundPiece]]:
        for piece in heard.pieces:
            if piece.state != DONE:
                continue
            data = self.jobs.read(heard.job.id, piece)
            if data is None:
                self.jobs.speak_anew(heard.job.id, [piece.number])
                words = f"piece {piece.number} of the job was damaged and is spoken again: ask again when it is done"
                raise JobInaudible("job_not_done", words, state="waiting")
            yield piece, unpacked(data, with_times)


def chapters_of(heard: Heard) -> list[Chapter]:
    """The job's chapters with their times; none where there is but one without a title."""
    chapters = heard.job.chapters
    if len(chapters) == 1 and not chapters[0][0]:
        return []
    starts = heard.starts()
    borders = [*(starts[first] / heard.sample_rate for _, first in chapters), heard.job.n_samples / heard.sample_rate]
    return [
        Chapter(title or heard.job.title or "…", start, stop)
        for (title, _), start, stop in zip(chapters, borders, borders[1:], strict=False)
    ]


def _document(chapter: Chapter) -> dict[str, object]:
    return {"title": chapter.title, "start_s": round(chapter.start_s, 6), "stop_s": round(chapter.stop_s, 6)}
