"""One training step: generator, discriminators, both optimisers and the moving average, with no look at the host.

Nothing in a step depends on values that the host would have to read, so that on a GPU the whole of it can be captured
as one graph for each batch shape.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from cloning.alignment import log_likelihood, search
from cloning.config import VoiceConfig
from cloning.layers.convolutions import sequence_mask
from cloning.model import YourTTS
from cloning.posterior import LogSpectrogram, sample
from cloning.text_encoder import expand, owners
from cloning.training.config import TrainConfig
from cloning.training.data import Batch, PackedCorpus, Shape
from cloning.training.discriminators import Discriminators
from cloning.training.ear import Ear, speaker_means
from cloning.training.losses import (
    COARSE_RESOLUTIONS,
    MEL_RESOLUTIONS,
    LogMels,
    Resampler,
    SpeakerNetwork,
    discriminator_loss,
    features_apart,
    generator_losses,
    kl_loss,
    mel_loss,
    movement_loss,
)
from cloning.training.sides import Side

LOSSES = (
    "mel", "prior_mel", "kl", "duration", "adversarial", "matching", "discriminator",
    "strangers", "movement", "conversion", "ear", "ear_matching", "sounds", "sounds_recorded",
)  # fmt: skip
SPEAKER_HZ = 16000
PARTIAL_MELS = 160
PARTIAL_S = 1.6


@dataclass(frozen=True, slots=True)
class Latents:
    """A batch as the posterior heard it, before and after the flow, and as the prior expects it, frame by frame.

    Shapes: symbols int64 (B, T), which one each frame belongs to; all others float32 (B, C, T).
    """

    symbols: Tensor
    z: Tensor
    z_p: Tensor
    m_p: Tensor
    logs_p: Tensor


@dataclass(frozen=True, slots=True)
class Pieces:
    """Decoded pieces of utterances and the recordings that they should be; those after `n_heard` are of the prior.

    Shapes: spoken, recorded float32 (S, T * hop), symbols int64 (S, T), speakers int64 (S,).
    """

    spoken: Tensor
    recorded: Tensor
    symbols: Tensor
    speakers: Tensor
    n_heard: int


@dataclass(frozen=True, slots=True)
class Converted:
    """Speech in the voices of `speakers`, of whom no recording says the same; rows of weight 0 were too short.

    Shapes: audio float32 (B, T * hop) and at_16_khz float32 (B, n * 2 / 3), symbols int64 (B, T), speakers int64 (B,),
        weight float32 (B,).
    """

    audio: Tensor
    at_16_khz: Tensor
    symbols: Tensor
    speakers: Tensor
    weight: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """Of the rows that count. Shapes: (B,) -> ()."""
        return (values * self.weight).sum() / self.weight.sum().clamp(min=1)


class Learner:
    """Everything that changes while training: networks, optimisers, the average of the weights, sums of the losses."""

    def __init__(
        self,
        voice: VoiceConfig,
        train: TrainConfig,
        corpus: PackedCorpus,
        speakers: SpeakerNetwork,
        n_ranks: int = 1,
        ear: Ear | None = None,
    ) -> None:
        # The same first weights on every rank: gradients are averaged, weights are never sent.
        torch.manual_seed(train.seed)
        self.voice, self.train, self.corpus, self.speakers = voice, train, corpus, speakers
        self.device, self.n_ranks, self.ear = corpus.audio.device, n_ranks, ear
        self.ear_vectors = None if ear is None else speaker_means(ear, corpus, voice.audio.sample_rate)
        self.model = YourTTS(voice, with_posterior=True).to(self.device)
        n_symbols = len(voice.text.symbols)
        d_vector = corpus.speaker_vectors.shape[1]
        self.judges = Discriminators(train.discriminators, voice.audio.n_bins, n_symbols, d_vector).to(self.device)
        self.spectrogram = LogSpectrogram(voice.audio).to(self.device)
        self.mels = LogMels(voice.audio.sample_rate, MEL_RESOLUTIONS).to(self.device)
        self.coarse_mels = LogMels(voice.audio.sample_rate, COARSE_RESOLUTIONS).to(self.device)
        self.resampler = Resampler(voice.audio.sample_rate, SPEAKER_HZ).to(self.device)
        self.parameters = list(self.model.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        self.voice_side = Side(self.parameters, train.schedule.learning_rate, train.clip_norm, n_ranks)
        self.judge_side = Side(
            list(self.judges.parameters()),
            train.schedule.discriminator_learning_rate,
            train.discriminator_clip_norm,
            n_ranks,
        )
        # Sums of the losses, and how many steps were taken and how many were not.
        self.sums = torch.zeros(len(LOSSES) + 2, device=self.device)
        # Read inside a step, which may be a captured graph; the trainer writes them before it.
        self.searched_durations = torch.zeros((), device=self.device)
        self.own_alignments = torch.ones((), dtype=torch.bool, device=self.device)

    def autocast(self) -> torch.autocast:
        """bfloat16 on a GPU, float32 on a CPU: many CPUs have no arithmetic for the former."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def step(self, shape: Shape, rows: Tensor, companions: Tensor, adversary: bool, conversion: bool) -> None:
        """One update from the utterances `rows`, or none where it is no number; losses are added to `sums`.

        Shapes: rows, companions int64 (B,).
        """
        batch = self.corpus.batch(rows, shape)
        g = self._condition(batch, companions)
        zero, good = torch.zeros((), device=self.device), torch.ones((), dtype=torch.bool, device=self.device)
        losses = dict.fromkeys(LOSSES, zero)
        latents, losses["kl"], losses["duration"] = self._latents(batch, g)
        pieces = self._segments(batch, latents, g)
        losses |= self._unlike_recordings(pieces)
        spoken, speakers, converted = pieces.spoken, pieces.speakers, None
        if conversion:
            converted = self._converted(batch, latents)
            losses["conversion"], losses["ear"] = self._unlike(converted)
            spoken = torch.cat([spoken, self._piece_of_each(converted)])
            speakers = torch.cat([speakers, converted.speakers])
        if adversary:
            of_judges, good = self._update_judges(spoken, speakers, pieces)
            losses |= of_judges
            losses["adversarial"], losses["matching"] = self._judged(spoken, speakers, pieces)
            losses["sounds"] = self._misheard(pieces, converted)
        weights = asdict(self.train.weights)
        good = good & self.voice_side.update(torch.stack([w * losses[name] for name, w in weights.items()]).sum())
        with torch.no_grad():
            torch._foreach_lerp_(self.average, list[Tensor](self.parameters), 1 - self.train.ema_decay)
            counted = torch.where(good, torch.stack([*losses.values(), zero + 1]).float(), 0.0)
            self.sums += torch.cat([counted, (~good)[None].float()])

    def _condition(self, batch: Batch, companions: Tensor) -> Tensor:
        """A point between the speaker's mean and another of the speaker's utterances, a little shaken."""
        mean, other = self.corpus.speaker_vectors[batch.speakers], self.corpus.vectors[companions]
        vector = torch.lerp(other, mean, torch.rand(len(mean), 1, device=self.device))
        vector = F.normalize(vector + self.train.vector_noise * torch.randn_like(vector), dim=1)
        with self.autocast():
            return self.model.condition(vector, batch.recordings)

    def _latents(self, batch: Batch, g: Tensor) -> tuple[Latents, Tensor, Tensor]:
        """The latents, and the losses of the prior and of the durations."""
        model, n_frames = self.model, batch.z_mask.shape[2]
        assert model.posterior is not None
        with self.autocast():
            m_q, logs_q = model.posterior(self.spectrogram(batch.audio), batch.z_mask, g)
            logs_q = logs_q.clamp(-8, 4)
            z = sample(m_q, logs_q, batch.z_mask)
            z_p = model.flow(z, batch.z_mask, g)
            language = torch.zeros_like(batch.speakers)
            hidden, m_p, logs_p = model.text_encoder(batch.token_ids, language, batch.x_mask, g)
        durations = self._durations(batch, z_p, m_p, logs_p)
        with self.autocast():
            rhythm = model.duration_condition(g, language)
            errors = model.durations.loss(hidden.detach(), batch.x_mask, rhythm.detach(), durations)
        trusted = torch.where(batch.aligned & self.own_alignments, 1.0, self.searched_durations)[
            :, None
        ] * batch.x_mask.squeeze(1)
        duration = (errors * trusted).sum() / trusted.sum().clamp(min=1)
        symbols = batch.token_ids.gather(1, owners(durations, n_frames))
        latents = Latents(symbols, z, z_p, expand(m_p, durations, n_frames), expand(logs_p, durations, n_frames))
        return latents, kl_loss(z_p, logs_q, latents.m_p, latents.logs_p, batch.z_mask), duration

    @torch.no_grad()
    def _durations(self, batch: Batch, z_p: Tensor, m_p: Tensor, logs_p: Tensor) -> Tensor:
        """The corpus's own durations where it has them and they are still used, else the most likely ones."""
        score = log_likelihood(z_p, m_p, logs_p)
        found = search(score, batch.n_symbols, batch.n_frames)
        return torch.where((batch.aligned & self.own_alignments)[:, None], batch.durations, found)

    def _segments(self, batch: Batch, latents: Latents, g: Tensor) -> Pieces:
        """Random pieces of the batch, decoded, and the recordings that they should be."""
        n, width, hop = self.train.n_segments, self.train.segment_frames, self.voice.audio.hop_length
        rows = torch.arange(n, device=self.device) % len(latents.z)
        start = self._starts(batch.n_frames[rows], width)
        n_heard = n - self.train.n_prior_segments
        at = start[:, None] + torch.arange(width, device=self.device)
        pieces = [_frames(latents.z, rows[:n_heard], at[:n_heard])]
        if n_heard < n:
            pieces.append(self._of_prior(batch, latents, g, rows[n_heard:], start[n_heard:]))
        samples_at = start[:, None] * hop + torch.arange(width * hop, device=self.device)
        with self.autocast():
            spoken = self.model.decoder(torch.cat(pieces), g[rows])
        symbols, recorded = latents.symbols[rows[:, None], at], batch.audio[rows[:, None], samples_at]
        return Pieces(spoken, recorded, symbols, batch.speakers[rows], n_heard)

    def _of_prior(self, batch: Batch, latents: Latents, g: Tensor, rows: Tensor, start: Tensor) -> Tensor:
        """Pieces as they are met in speaking: the prior's means with little noise, back through the flow.

        Without them the decoder never hears in training what it hears in speaking.
        Source: the idea of NaturalSpeech (Tan et al. 2022), section 3.4: gradients from speech made of the prior.
        """
        width, margin = self.train.segment_frames, self.model.flow.receptive_field_frames
        at = start[:, None] + torch.arange(-margin, width + margin, device=self.device)
        inside = (at >= 0) & (at < batch.n_frames[rows][:, None])
        at, mask = at.clamp(0, latents.z.shape[2] - 1), inside[:, None].float()
        noise = torch.rand(len(rows), 1, 1, device=self.device) * self.train.prior_noise
        means, logs = _frames(latents.m_p, rows, at), _frames(latents.logs_p, rows, at)
        z_p = (means + noise * torch.randn_like(means) * logs.exp()) * mask
        with self.autocast():
            z: Tensor = self.model.flow(z_p, mask, g[rows], reverse=True)
        return z[:, :, margin : margin + width]

    def _unlike_recordings(self, pieces: Pieces) -> dict[str, Tensor]:
        """Distances of what was decoded: of the posterior's pieces closely, of the prior's coarsely."""
        n, spoken, recorded = pieces.n_heard, pieces.spoken, pieces.recorded
        ours, theirs = self.mels(spoken), self.mels(recorded)
        losses = {
            "mel": mel_loss([m[:n] for m in ours], [m[:n] for m in theirs]),
            "movement": movement_loss(ours, theirs),
            "ear_matching": self._apart_to_ear(spoken[:n], recorded[:n]),
        }
        if n < len(spoken):
            losses["prior_mel"] = mel_loss(self.coarse_mels(spoken[n:]), self.coarse_mels(recorded[n:]))
        return losses

    def _starts(self, n_frames: Tensor, width: int) -> Tensor:
        room = (n_frames - width).clamp(min=0)
        return (torch.rand(len(room), device=self.device) * (room + 1)).long().clamp(max=room)

    def _converted(self, batch: Batch, latents: Latents) -> Converted:
        """Speech of one person carried through the flow to another's d-vector; every second row is its own person's.

        Those rows are what the prior expects, as in speaking. The condition of half of all is the recording condition
        that the voice will speak as.
        """
        n = min(self.train.conversion_rows, len(latents.z_p))
        width = -(-int(PARTIAL_S * 1.5 * self.voice.audio.sample_rate) // self.voice.audio.hop_length)
        at = self._starts(batch.n_frames[:n], width)[:, None] + torch.arange(width, device=self.device)
        rows, at = torch.arange(n, device=self.device), at.clamp(max=latents.z_p.shape[2] - 1)
        own = rows % 2 == 1
        pieces = _frames(torch.where(own[:, None, None], latents.m_p[:n], latents.z_p[:n].detach()), rows, at)
        target = torch.where(own, rows, (rows - 7) % len(latents.z_p))
        spoken_as = torch.full_like(target, self.voice.recording_id)
        recordings = torch.where(torch.rand(n, device=self.device) < 0.5, spoken_as, batch.recordings[target])
        mask = sequence_mask(torch.full_like(target, width), width)
        speakers = batch.speakers[target]
        with self.autocast():
            g = self.model.condition(self.corpus.speaker_vectors[speakers], recordings)
            audio = self.model.decoder(self.model.flow(pieces, mask, g, reverse=True), g)
        symbols, long_enough = latents.symbols[rows[:, None], at], (batch.n_frames[:n] >= width).float()
        return Converted(audio, self.resampler(audio), symbols, speakers, long_enough)

    def _unlike(self, converted: Converted) -> tuple[Tensor, Tensor]:
        """How unlike its speakers it sounds to the network of the d-vectors, and to the second ear if there is one.

        Source: the speaker consistency loss of YourTTS (Casanova et al. 2022), section 3.1.
        """
        target = self.corpus.speaker_vectors[converted.speakers]
        vectors = self.speakers.embed_mels(self.speakers.mels(converted.at_16_khz)[:, :PARTIAL_MELS])
        unlike = converted.mean(1 - (vectors * target).sum(1))
        if self.ear is None or self.ear_vectors is None:
            return unlike, torch.zeros_like(unlike)
        mels = self.ear.mels(converted.at_16_khz)
        with self.autocast():
            heard = self.ear.embed_mels(mels)
        return unlike, converted.mean(1 - (heard * self.ear_vectors[converted.speakers]).sum(1))

    def _apart_to_ear(self, spoken: Tensor, recorded: Tensor) -> Tensor:
        """How far pieces lie from their recordings in what the second ear makes of both, stage by stage.

        It was taught to hear people through noise and rooms, so it minds what of a piece is the person's.
        Source: deep feature losses (Germain et al. 2018), equation 2.
        """
        if self.ear is None:
            return torch.zeros((), device=self.device)
        mels = self.ear.mels(self.resampler(torch.cat([spoken, recorded])))
        with self.autocast():
            ours, theirs = zip(*(stage.chunk(2) for stage in self.ear.features(mels)), strict=True)
        return features_apart(ours, [t.detach() for t in theirs])

    def _piece_of_each(self, converted: Converted) -> Tensor:
        """As long as the other pieces that are judged: likeness must not be bought with what no recording sounds like.

        Shapes: -> float32 (B, n).
        """
        n = self.train.segment_frames * self.voice.audio.hop_length
        room = torch.full_like(converted.speakers, converted.audio.shape[1])
        at = self._starts(room, n)[:, None] + torch.arange(n, device=self.device)
        return converted.audio.gather(1, at)

    @contextmanager
    def _judges_at_rest(self) -> Iterator[None]:
        """No time is spent on gradients of the judges."""
        self.judges.requires_grad_(False)
        with self.autocast():
            yield
        self.judges.requires_grad_(True)

    def _judged(self, spoken: Tensor, speakers: Tensor, pieces: Pieces) -> tuple[Tensor, Tensor]:
        """What the judges' opinions cost the voice."""
        n = len(pieces.recorded)
        with self._judges_at_rest():
            judgements = self.judges(torch.cat([pieces.recorded, spoken]), self._people(pieces, speakers))
        return generator_losses(judgements, n, pieces.n_heard)

    def _people(self, pieces: Pieces, speakers: Tensor) -> Tensor:
        """The d-vectors of the people of all that is judged: of the recordings, then of what was spoken."""
        return self.corpus.speaker_vectors[torch.cat([pieces.speakers, speakers])]

    def _misheard(self, pieces: Pieces, converted: Converted | None) -> Tensor:
        """How far the listener is from hearing the sounds of the text, also in other people's voices."""
        with self._judges_at_rest():
            misheard = self._sounds_missed(pieces.spoken, pieces.symbols).mean()
            if converted is not None:
                missed = self._sounds_missed(converted.audio, converted.symbols)
                misheard = (misheard + converted.mean(missed.mean(1))) / 2
        return misheard

    def _sounds_missed(self, audio: Tensor, symbols: Tensor) -> Tensor:
        """Cross entropy, frame by frame. Shapes: float32 (B, T * hop), int64 (B, T) -> float32 (B, T)."""
        return F.cross_entropy(self.judges.sounds(self.spectrogram(audio)).float(), symbols, reduction="none")

    def _update_judges(self, spoken: Tensor, speakers: Tensor, pieces: Pieces) -> tuple[dict[str, Tensor], Tensor]:
        """The judges' losses and the listener's, and whether they took their step."""
        # Neighbours are other utterances, and mostly other people's; where they are not, no stranger is shown.
        others = pieces.speakers.roll(1)
        are_strangers = (others != pieces.speakers).float()[:, None, None, None]
        with self.autocast():
            judgements = self.judges(torch.cat([pieces.recorded, spoken.detach()]), self._people(pieces, speakers))
            taken = self.judges.taken_for(judgements, self.corpus.speaker_vectors[others])
            misheard = self._sounds_missed(pieces.recorded, pieces.symbols).mean()
        judged, strangers = discriminator_loss(judgements, [s * are_strangers for s in taken], len(pieces.recorded))
        good = self.judge_side.update(judged + strangers + misheard)
        return {"discriminator": judged, "strangers": strangers, "sounds_recorded": misheard}, good


def _frames(latents: Tensor, rows: Tensor, at: Tensor) -> Tensor:
    """Frames `at` of each of the `rows`. Shapes: (B, C, T), int64 (S,), int64 (S, n) -> (S, C, n)."""
    return latents.transpose(1, 2)[rows[:, None], at].transpose(1, 2)
