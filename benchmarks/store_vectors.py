"""D-vectors like those of real speakers, as many as are wanted, for measuring the store.

    python -m benchmarks.store_vectors --fit corpus.npz     # writes benchmarks/data/d-vectors.npz

GE2E vectors are not noise on a sphere: they are not negative, many of their numbers are zero, and people lie in
clusters (women and men above all). The model: what the last layer had before its ReLU is Gaussian within each of a few
clusters in the space of the principal components, with independent noise in every dimension beside. It is fitted to the
mean vectors of the corpus' training speakers and holds nothing of any one of them.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
MODEL = Path(__file__).parent / "data" / "d-vectors.npz"
_ROWS_PER_DRAW = 65536


class VectorSource:
    """Draws d-vectors, always the same ones from the same seed."""

    def __init__(self, model: Mapping[str, FloatArray]) -> None:
        self._model = model

    @classmethod
    def load(cls) -> "VectorSource":
        """The source that was fitted to real speakers."""
        with np.load(MODEL) as model:
            return cls({name: model[name] for name in model.files})

    def draw(self, count: int, seed: int) -> FloatArray:
        """Shapes: float32 (count, 256), L2 norm 1, none negative."""
        vectors = np.empty((count, self._model["mean"].shape[0]), np.float32)
        for start in range(0, count, _ROWS_PER_DRAW):
            rows = vectors[start : start + _ROWS_PER_DRAW]
            rows[:] = self._draw(len(rows), np.random.default_rng((seed, start)))
        return vectors

    def _draw(self, count: int, random: np.random.Generator) -> FloatArray:
        model = self._model
        weights = model["weights"].astype(np.float64)
        cluster = random.choice(len(weights), count, p=weights / weights.sum())
        latent = random.standard_normal((count, len(model["components"])), np.float32)
        latent = latent * model["scales"][cluster] + model["centres"][cluster]
        noise = random.standard_normal((count, len(model["mean"])), np.float32) * model["noise"]
        raw = np.maximum(latent @ model["components"] + model["mean"] + noise, 0)
        return raw / np.linalg.norm(raw, axis=1, keepdims=True)


def fit(vectors: FloatArray, n_components: int, n_clusters: int) -> dict[str, FloatArray]:
    """The model of these speakers' vectors, spread so that two drawn people are as far apart as two real ones.

    Shapes: vectors float32 (n, d), L2 norm 1.
    """
    model, target = _fit_unspread(vectors, n_components, n_clusters), describe(vectors)["cosine_mean"]
    spread = {name: model[name] for name in ("scales", "noise", "centres")}
    trials = []
    for factor in np.linspace(1.0, 1.6, 13):
        trial = model | {name: np.float32(factor) * value for name, value in spread.items()}
        trials.append((abs(describe(VectorSource(trial).draw(4000, 1))["cosine_mean"] - target), factor, trial))
    return min(trials, key=lambda each: each[:2])[2]


def _fit_unspread(vectors: FloatArray, n_components: int, n_clusters: int) -> dict[str, FloatArray]:
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    raw = _before_relu(vectors)
    pca = PCA(n_components, random_state=0).fit(raw)
    latent = pca.transform(raw)
    mixture = GaussianMixture(n_clusters, covariance_type="diag", reg_covar=1e-5, random_state=0, n_init=5).fit(latent)
    rest = raw - pca.inverse_transform(latent)
    model = {
        "mean": pca.mean_,
        "components": pca.components_,
        "weights": mixture.weights_,
        "centres": mixture.means_,
        "scales": np.sqrt(mixture.covariances_),
        "noise": rest.std(axis=0),
    }
    return {name: value.astype(np.float32) for name, value in model.items()}


def _before_relu(vectors: FloatArray) -> FloatArray:
    """What the ReLU is likely to have cut: the mean of the part below zero of the Gaussian whose rest is seen."""
    from scipy.stats import norm

    positive = vectors > 0
    share = np.clip(positive.mean(axis=0), 0.01, 0.99)
    seen = vectors.sum(axis=0) / np.maximum(positive.sum(axis=0), 1)
    place = norm.ppf(share)
    scale = seen / (place + norm.pdf(place) / share)
    return np.where(positive, vectors, scale * (place - norm.pdf(place) / (1 - share))).astype(np.float32)


def describe(vectors: FloatArray, n_pairs: int = 200_000) -> dict[str, Any]:
    """What real and drawn vectors are compared by."""
    random = np.random.default_rng(0)
    first, second = random.integers(0, len(vectors), (2, n_pairs))
    different = first != second
    cosines = np.einsum("ij,ij->i", vectors[first[different]], vectors[second[different]])
    subset = vectors[random.permutation(len(vectors))[:500]]
    near = subset @ subset.T
    np.fill_diagonal(near, -1)
    values = np.linalg.eigvalsh(np.cov(vectors.T))[::-1]
    shares = np.cumsum(values) / values.sum()
    return {
        "n": len(vectors),
        "zeros": round(float((vectors == 0).mean()), 3),
        "cosine_mean": round(float(cosines.mean()), 3),
        "cosine_p5_p95": [round(float(q), 3) for q in np.percentile(cosines, (5, 95))],
        "nearest_of_500_median": round(float(np.median(near.max(axis=1))), 3),
        "components_for_90_95_99": [int(np.searchsorted(shares, share)) + 1 for share in (0.9, 0.95, 0.99)],
    }


def speaker_means(corpus: Path) -> FloatArray:
    """One mean vector for each speaker of what `corpus_vectors` wrote."""
    with np.load(corpus) as file:
        whole = file["lengths_s"] == 0
        speakers, vectors = file["speakers"][whole], file["vectors"][whole]
    means = np.stack([vectors[speakers == name].mean(axis=0) for name in np.unique(speakers)])
    return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True), np.float32)


def main() -> None:
    """Fits, writes the model, and prints how well drawn vectors resemble real ones."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--fit", type=Path, required=True)
    options.add_argument("--components", type=int, default=96)
    options.add_argument("--clusters", type=int, default=12)
    chosen = options.parse_args()
    real = speaker_means(chosen.fit)
    MODEL.parent.mkdir(exist_ok=True)
    np.savez_compressed(MODEL, **fit(real, chosen.components, chosen.clusters))
    print(json.dumps({"real": describe(real), "drawn": describe(VectorSource.load().draw(len(real), 1))}, indent=1))


if __name__ == "__main__":
    main()
