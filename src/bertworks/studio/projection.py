"""Vectors on a plane: PCA, t-SNE and UMAP, and the turning of one picture onto another.

    pca     the two directions in which the vectors differ most (Pearson 1901); distances on the plane are never larger
            than in truth, and the share of the variance that is seen is known
    tsne    neighbours stay neighbours (van der Maaten & Hinton 2008, by scikit-learn); distances between groups and the
            size of a group mean nothing
    umap    likewise (McInnes, Healy & Melville 2018), where the package umap-learn is installed

Legend: n vectors, W numbers each.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import UsageError, choice

Floats = NDArray[np.float64]
METHODS = ("pca", "tsne", "umap")
LEAST = {"pca": 1, "tsne": 4, "umap": 4}  # fewer vectors have no neighbourhoods
USUAL_NEIGHBOURS = {"tsne": 30, "umap": 15}


@dataclass(frozen=True)
class Projection:
    """n points on a plane."""

    points: Floats  # (n, 2)
    shares: tuple[float, float] | None = None
    """Of PCA: the part of the variance that each axis shows."""


def installed(method: str) -> bool:
    """Whether a method can be used here."""
    return method != "umap" or importlib.util.find_spec("umap") is not None


def project(vectors: NDArray[np.floating], method: str = "pca", *, seed: int = 0) -> Projection:
    """(n, W) -> (n, 2); the same vectors and seed give the same points."""
    choice(method, METHODS, "kind of map")
    if not installed(method):
        raise UsageError("a UMAP map needs the package umap-learn: pip install umap-learn, or choose pca or tsne")
    count = len(vectors)
    if count < LEAST[method]:
        raise UsageError(
            f"a {method} map needs at least {LEAST[method]} texts; there are {count}: use pca, or add some"
        )
    wide = np.asarray(vectors, np.float64)
    if method == "pca":
        return pca(wide)
    start = seed % 2**32  # both count no further
    near = min(USUAL_NEIGHBOURS[method], max(2, (count - 1) // 3))
    if method == "tsne":
        from sklearn.manifold import TSNE

        # From PCA's picture, so that what is far apart begins far apart.
        model = TSNE(perplexity=near, init=_spread(pca(wide).points), random_state=start, method="barnes_hut")
        return Projection(np.asarray(model.fit_transform(wide), np.float64))
    from umap import UMAP  # type: ignore[import-not-found,unused-ignore]

    return Projection(np.asarray(UMAP(n_neighbors=near, random_state=start).fit_transform(wide), np.float64))


def pca(vectors: Floats) -> Projection:
    """Principal components; each axis points to where its largest direction is positive, so that signs are settled."""
    centred = vectors - vectors.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    count = min(2, len(sizes))
    axes = directions[:count]
    largest = np.abs(axes).argmax(axis=1)
    axes = axes * np.where(axes[np.arange(count), largest] < 0, -1.0, 1.0)[:, None]
    points = np.zeros((len(vectors), 2))
    points[:, :count] = centred @ axes.T
    shares = np.zeros(2)
    shares[:count] = sizes[:count] ** 2 / max(float((sizes**2).sum()), 1e-30)
    return Projection(points, (float(shares[0]), float(shares[1])))


def turned(points: Floats, onto: Floats) -> Floats:
    """The points turned and mirrored, never stretched, to lie as near to `onto` as can be (Schönemann 1966)."""
    left, _, right = np.linalg.svd(points.T @ onto)
    turned_points: Floats = points @ (left @ right)
    return turned_points


def cosines(vectors: NDArray[np.floating]) -> Floats:
    """(n, n): the cosine of every two vectors; a vector of zeros is like nothing."""
    wide = np.asarray(vectors, np.float64)
    units = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    found: Floats = units @ units.T
    return found


def _spread(points: Floats) -> NDArray[np.float32]:
    """As small as t-SNE wants its beginning."""
    return (points / max(float(points[:, 0].std()), 1e-12) * 1e-4).astype(np.float32)
