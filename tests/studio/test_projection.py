"""Maps: PCA by hand and against scikit-learn, t-SNE keeps neighbours, UMAP says what it needs."""

from __future__ import annotations

import numpy as np
import pytest

from bertworks.errors import UsageError
from bertworks.studio import projection


def test_pca_by_hand() -> None:
    vectors = np.array([[0.0, 0, 0], [4, 0, 0], [2, 1, 0], [2, -1, 0]])
    found = projection.project(vectors)
    np.testing.assert_allclose(found.points, [[-2, 0], [2, 0], [0, 1], [0, -1]], atol=1e-12)
    assert found.shares == pytest.approx((0.8, 0.2))


def test_pca_is_that_of_scikit_learn() -> None:
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(3).normal(size=(17, 6))
    reference = PCA(2).fit(vectors)
    found = projection.pca(vectors)
    np.testing.assert_allclose(np.abs(found.points), np.abs(reference.transform(vectors)), atol=1e-9)
    assert found.shares == pytest.approx(tuple(reference.explained_variance_ratio_))


def test_few_vectors() -> None:
    one = projection.project(np.ones((1, 5)))
    np.testing.assert_array_equal(one.points, [[0, 0]])
    same = projection.project(np.ones((3, 5)))
    np.testing.assert_allclose(same.points, 0, atol=1e-12)
    assert np.isfinite(projection.project(np.array([[1.0], [2.0]])).points).all()
    with pytest.raises(UsageError, match=r"a tsne map needs at least 4 texts; there are 3"):
        projection.project(np.ones((3, 5)), "tsne")


def test_tsne_keeps_neighbours_and_is_the_same_again() -> None:
    random = np.random.default_rng(0)
    groups = np.repeat(np.eye(3) * 10, 8, axis=0)
    vectors = np.concatenate([groups, random.normal(size=(24, 4))], axis=1)
    points = projection.project(vectors, "tsne").points
    np.testing.assert_array_equal(points, projection.project(vectors, "tsne").points)
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1) + np.eye(24) * 1e9
    assert (distances.argmin(axis=1) // 8 == np.arange(24) // 8).all()


@pytest.mark.slow  # its first map is compiled, which takes a minute
def test_umap_keeps_neighbours() -> None:
    pytest.importorskip("umap", reason="umap-learn is not installed")
    vectors = np.concatenate(
        [np.repeat(np.eye(3) * 10, 8, axis=0), np.random.default_rng(0).normal(size=(24, 4))], axis=1
    )
    points = projection.project(vectors, "umap").points
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1) + np.eye(24) * 1e9
    assert (distances.argmin(axis=1) // 8 == np.arange(24) // 8).all()


def test_umap_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "installed", lambda method: method != "umap")
    with pytest.raises(UsageError, match="pip install umap-learn"):
        projection.project(np.ones((9, 5)), "umap")
    with pytest.raises(UsageError, match="unknown kind of map 'pcs'"):
        projection.project(np.ones((9, 5)), "pcs")


def test_turned_points_lie_on_those_they_came_from() -> None:
    points = np.random.default_rng(1).normal(size=(7, 2))
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ np.diag([1, -1])
    np.testing.assert_allclose(projection.turned(points @ turn, points), points, atol=1e-12)


def test_cosines() -> None:
    found = projection.cosines(np.array([[3.0, 0], [1, 1], [0, 0]]))
    np.testing.assert_allclose(found, [[1, 0.5**0.5, 0], [0.5**0.5, 1, 0], [0, 0, 0]], atol=1e-12)
