"""Learning: the loops against plain numpy, equal runs, what is learnt, and what uncertainty means."""

import itertools

import numpy as np
import pytest

from bertworks.errors import UsageError
from bertworks.vectors import TextOptions, TrainingOptions, train_vectors
from bertworks.vectors.kernels import (
    GOLDEN,
    LANE,
    LOSS_EVERY,
    Sampling,
    Texts,
    bounds,
    draw_targets,
    keep_words,
    logistic_table,
    mixed,
    train_bernoulli,
    train_cbow,
    train_skip_gram,
)
from bertworks.vectors.reading import encode
from bertworks.vectors.sampling import (
    alias_table,
    in_threads,
    keep_probabilities,
    padded,
    portions,
    sampling,
    scratch,
)
from tests.vectors.small import DIM, config, made_up_texts, topics_apart

WORDS, WINDOW, NEGATIVE = 9, 3, 4


# --- one pass of each kernel, in numpy ---------------------------------------------------------------------------------


def plan(texts: Texts, key: np.uint64, tables: Sampling, options: TrainingOptions):
    """What a kernel draws: (place, word, neighbours, targets) in its order."""
    space = scratch(99, WINDOW, options)
    with np.errstate(over="ignore"):
        for text in range(len(texts.starts) - 1):
            start = np.uint64(mixed(key + GOLDEN * np.uint64(text + 1)))
            count, state = keep_words(texts, text, tables.keep, space.kept, start)
            kept = space.kept[:count].tolist()
            for place in range(count):
                state = np.uint64(state) + GOLDEN
                low, high = bounds(place, count, WINDOW, state)
                number, state = draw_targets(tables, space.targets, kept[place], NEGATIVE, np.uint64(state))
                near = [kept[other] for other in range(low, high) if other != place]
                yield place, near, space.targets[:number].tolist()


def guess(value: float) -> float:
    """The logistic function of the kernels' table."""
    table = logistic_table()
    return float(table[min(max(int((value + 8) * 128), 0), len(table) - 1)])


@pytest.fixture
def setting():
    random = np.random.default_rng(5)
    lengths = [8, 1, 11, 5]
    texts = Texts(random.integers(0, WORDS, sum(lengths)).astype(np.int32), np.cumsum([0, *lengths]))
    options = TrainingOptions(dim=DIM, negative=NEGATIVE, window=WINDOW)
    tables = sampling(np.bincount(texts.ids, minlength=WORDS) + 1, 0.05)
    one, other = (random.normal(0, 0.5, (WORDS, padded(DIM))).astype(np.float32) for _ in range(2))
    one[:, DIM:] = other[:, DIM:] = 0
    return texts, np.uint64(77), tables, options, one, other


def call(kernel, setting, one, other, *more):
    texts, key, tables, options, _, _ = setting
    blocks = (0,) * (padded(DIM) // LANE)
    space = scratch(20, WINDOW, options)
    numbers = (WINDOW, NEGATIVE, np.float32(0.05), blocks)
    return kernel(texts, 0, len(texts.starts) - 1, key, one, other, tables, space, *numbers, *more)


def test_skip_gram_equals_numpy(setting):
    texts, key, tables, options, one, other = setting
    inputs, outputs = one.astype(np.float64), other.astype(np.float64)
    loss, pairs = 0.0, 0
    for place, near, targets in plan(texts, key, tables, options):
        x, y = inputs[near], outputs[targets]
        guesses = np.vectorize(guess, otypes=[float])(x @ y.T) if near else np.zeros((0, len(targets)))
        truth = np.zeros(len(targets))
        truth[0] = 1
        if place % LOSS_EVERY == 0:
            pairs += len(near)
            loss -= np.log(np.where(truth == 1, guesses, 1 - guesses)).sum()
        step = 0.05 * (truth - guesses)
        np.add.at(outputs, targets, step.T @ x)
        np.add.at(inputs, near, step @ y)
    trained = one.copy(), other.copy()
    found = call(train_skip_gram, setting, *trained)
    np.testing.assert_allclose(trained[0], inputs, atol=3e-3)  # the table has steps
    np.testing.assert_allclose(trained[1], outputs, atol=3e-3)
    assert np.abs(trained[0] - one).max() > 0.05
    assert found == pytest.approx((loss, pairs), rel=1e-2)


def test_cbow_equals_numpy(setting):
    texts, key, tables, options, one, other = setting
    inputs, outputs = one.astype(np.float64), other.astype(np.float64)
    for _, near, targets in plan(texts, key, tables, options):
        if not near:
            continue
        mean, step = inputs[near].mean(0), 0.0
        for number, target in enumerate(targets):
            error = 0.05 * ((number == 0) - guess(float(mean @ outputs[target])))
            step = step + error * outputs[target]
            outputs[target] += error * mean
        np.add.at(inputs, near, np.broadcast_to(step, (len(near), inputs.shape[1])))
    trained = one.copy(), other.copy()
    call(train_cbow, setting, *trained)
    np.testing.assert_allclose(trained[0], inputs, atol=3e-3)
    np.testing.assert_allclose(trained[1], outputs, atol=3e-3)


def test_bernoulli_is_cbow_where_there_is_no_variance(setting):
    *_, one, other = setting
    cbow, bernoulli = (one.copy(), other.copy()), (one.copy(), other.copy())
    call(train_cbow, setting, *cbow)
    precisions = np.ones_like(one)
    call(train_bernoulli, setting, *bernoulli, np.zeros_like(one), precisions)
    for ours, theirs in zip(bernoulli, cbow, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=5e-3)
    assert (precisions >= 1).all()
    assert (precisions[:, DIM:] == 1).all()


def test_the_bernoulli_step_is_the_gradient_of_its_bound():
    """d/dμ, d/dh and the best variance of E[log σ(±η)], by numbers."""
    random = np.random.default_rng(0)
    mean, context = random.normal(0, 1, 5), random.normal(0, 1, 5)
    variance = random.uniform(0.1, 1, 5)

    def bound(mu, h, v, sign):
        xi = np.sqrt((mu @ h) ** 2 + (v * h * h).sum())
        return -np.log1p(np.exp(-xi)) + sign * (mu @ h) / 2 - xi / 2

    for sign in (1, -1):
        xi = np.sqrt((mean @ context) ** 2 + (variance * context**2).sum())
        curve = (1 / (1 + np.exp(-xi)) - 0.5) / xi  # 2 λ(ξ)
        error = sign / 2 - curve * (mean @ context)
        for number in range(5):
            step = np.zeros(5)
            step[number] = 1e-6
            by_mean = (bound(mean + step, context, variance, sign) - bound(mean - step, context, variance, sign)) / 2e-6
            assert by_mean == pytest.approx(error * context[number], rel=1e-4)
            by_h = (bound(mean, context + step, variance, sign) - bound(mean, context - step, variance, sign)) / 2e-6
            assert by_h == pytest.approx(error * mean[number] - curve * variance[number] * context[number], rel=1e-4)
            by_v = (bound(mean, context, variance + step, sign) - bound(mean, context, variance - step, sign)) / 2e-6
            # with the entropy's 1/2σ² and the prior's -1/2s², this is 0 where 1/σ² = 1/s² + 2 λ h²
            assert by_v == pytest.approx(-curve * context[number] ** 2 / 2, rel=1e-4)


# --- drawing ----------------------------------------------------------------------------------------------------------


def test_the_alias_table_draws_by_weight():
    weights = np.array([5.0, 1.0, 0.25, 3.0, 0.75])
    chances, aliases = alias_table(weights.copy())
    drawn = np.zeros(5)
    for slot in range(5):
        drawn[slot] += chances[slot] / 5
        drawn[aliases[slot]] += (1 - chances[slot]) / 5
    np.testing.assert_allclose(drawn, weights / weights.sum())


def test_kept_words_by_hand():
    kept = keep_probabilities(np.array([90, 9, 1]), 0.01)
    ratio = 0.01 / 0.9
    assert kept[0] == pytest.approx(np.sqrt(ratio) + ratio)
    assert kept[2] == 1
    assert keep_probabilities(np.array([90, 9, 1]), 0).tolist() == [1, 1, 1]


def test_portions_cover_the_texts_and_the_rate_falls():
    starts = np.cumsum([0, *np.random.default_rng(0).integers(1, 40, 500)])
    both = [portions(starts, epoch, 2, 0.5) for epoch in range(2)]
    for found in both:
        assert [found[0].first, found[-1].last] == [0, 500]
        assert all(one.last == other.first < other.last for one, other in itertools.pairwise(found))
        assert sum(portion.words for portion in found) == starts[-1]
    rates = [portion.rate for found in both for portion in found]
    assert rates[0] == 0.5
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 0.01


def test_threads_do_every_job_once_and_pass_errors_on():
    for spaces in ([0], [0, 1, 2]):
        assert list(in_threads(lambda job, space: job * 2, range(9), spaces)) == [(job, job * 2) for job in range(9)]
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda job, space: 1 // job, [1, 0, 2], [0, 1]))


# --- whole runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow", "glove", "bernoulli"])
def test_topics_are_learnt_and_runs_are_equal(algorithm):
    texts = made_up_texts()
    told: list[tuple[str, float | None, str]] = []
    first = train_vectors(texts, config(algorithm), progress=lambda *event: told.append(event))
    second = train_vectors(texts, config(algorithm))
    np.testing.assert_array_equal(first.vectors.matrix, second.vectors.matrix)
    assert first.losses == second.losses
    assert first.losses[-1] < first.losses[0]
    assert len(first.losses) == 6
    assert topics_apart(first.vectors) > 0.3
    assert first.vectors.dim == DIM
    assert len(first.vectors) == 27
    assert first.words_read == first.words_used == 400 * 15
    shares = [share for stage, share, _ in told if stage == "learn vectors"]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1, abs=0.01)
    assert "words/s" in told[-1][2]
    other = train_vectors(texts, config(algorithm, seed=1))
    assert not np.array_equal(first.vectors.matrix, other.vectors.matrix)


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow", "glove", "bernoulli"])
def test_hogwild_learns_the_same_topics(algorithm):
    trained = train_vectors(made_up_texts(), config(algorithm, hogwild=True, threads=3))
    assert topics_apart(trained.vectors) > 0.3


def test_what_is_drawn_does_not_depend_on_the_threads():
    """With a rate near 0 nothing is learnt, so that only what is drawn decides the loss."""
    settled = {"learning_rate": 1e-30, "epochs": 2}
    alone = train_vectors(made_up_texts(), config(**settled))
    together = train_vectors(made_up_texts(), config(hogwild=True, threads=3, **settled))
    assert alone.losses == pytest.approx(together.losses, rel=1e-9)


def test_rare_words_are_less_certain():
    texts = made_up_texts()
    texts += ["sea1 sea2 rare1 sea3 sea4", "sky1 sky2 rare2 sky3 sky4"] * 2
    vectors = train_vectors(texts, config("bernoulli", subsample=0.0, prior_deviation=0.8)).vectors
    assert vectors.deviations is not None
    assert vectors.deviations.shape == vectors.matrix.shape
    spread = vectors.deviations.mean(1)
    assert (vectors.deviations <= 0.8 + 1e-6).all()
    rare = [vectors.index["rare1"], vectors.index["rare2"]]
    assert spread[rare].min() > np.delete(spread, rare).max()
    assert np.corrcoef(np.log(vectors.counts), spread)[0, 1] < -0.7


def test_a_rate_that_is_too_large_is_told():
    with pytest.raises(UsageError, match="out of all bounds; lower --learning-rate"):
        train_vectors(made_up_texts(60), config("cbow", learning_rate=1e30))


def test_the_usual_settings_are_filled_in():
    trained = train_vectors(made_up_texts(40), config("glove", epochs=None, window=None, learning_rate=None))
    options = trained.config.training
    assert (options.epochs, options.window, options.learning_rate) == (25, 10, 0.05)


def test_texts_do_not_see_each_other(tmp_path):
    """Pairs within texts only, counted by GloVe's table."""
    from bertworks.vectors.glove import count_pairs

    corpus = encode(["a b a", "c b c c"], TextOptions(min_count=1), tmp_path)
    expected = {}
    for text in ("aba", "cbcc"):
        for place in range(len(text)):
            for distance in (1, 2):
                if place >= distance:
                    one, other = sorted((corpus.words.index(text[place]), corpus.words.index(text[place - distance])))
                    # Both directions, as the published program counts: a word that meets itself does so twice.
                    count = (2 if one == other else 1) / distance
                    expected[other, one] = expected.get((other, one), 0) + count
    for part in (2**24, 3):
        pairs = count_pairs(corpus, 2, part=part)
        found = {(int(a), int(b)): float(x) for a, b, x in zip(*pairs, strict=True)}
        assert found == pytest.approx(expected)


def test_pairs_are_counted_right_in_any_number_of_parts(tmp_path):
    from bertworks.vectors.glove import count_pairs

    random = np.random.default_rng(3)
    words = [f"w{min(int(random.exponential(15)), 60)}" for _ in range(3000)]
    texts = [words[start : start + 30] for start in range(0, 3000, 30)]
    corpus = encode(map(" ".join, texts), TextOptions(min_count=1), tmp_path)
    expected: dict[tuple[int, int], float] = {}
    for text in texts:
        ids = [corpus.words.index(word) for word in text]
        for place, here in enumerate(ids):
            for distance in range(1, min(4, place) + 1):
                pair = max(here, ids[place - distance]), min(here, ids[place - distance])
                expected[pair] = expected.get(pair, 0) + (2 if pair[0] == pair[1] else 1) / distance
    for part in (2**24, 200, 1):
        pairs = count_pairs(corpus, 4, part=part)
        assert len(pairs.counts) == len(expected)
        found = {(int(a), int(b)): float(x) for a, b, x in zip(*pairs, strict=True)}
        assert found == pytest.approx(expected, rel=1e-5)
