"""Bernoulli embeddings with uncertainty: CBOW as a probability model, whose word vectors have a posterior.

The model is that of exponential family embeddings (Rudolph, Ruiz, Mandt & Blei 2016) as used for text by Rudolph & Blei
(2017, "Dynamic Bernoulli embeddings"): at each place of the text, the entry of word v is Bernoulli,

    x_v ~ Bernoulli(σ(ρ_v · h)),      h = the mean of the context vectors α of the neighbours,
    ρ_v, α_v ~ Normal(0, s² I),       s = `prior_deviation`,

with the true word as the one and `negative` drawn words as the zeros that are looked at. (They take the sum of the
context vectors; the mean makes places at the edge of a text count like others.)

*Uncertainty* here is this and nothing else: the context vectors α are point estimates (MAP), and for each word vector
ρ_v we fit the mean-field Gaussian posterior q(ρ_v) = Normal(μ_v, diag(σ_v²)) that maximises the evidence lower bound, the
logistic function being replaced by the quadratic bound of Jaakkola & Jordan (2000). With m = μ·h, v = Σ σ_d² h_d² and
ξ = √(m² + v), the expected bound at its best ξ is log σ(ξ) ± m/2 − ξ/2. Its gradient moves μ by ±½ − 2 λ(ξ) m along h,
where λ(ξ) = tanh(ξ/2) / 4ξ (for v = 0 this is x − σ(m), CBOW's step); and the best variances are known exactly,

    1 / σ_vd² = 1 / s² + Σ over the places where v was looked at of 2 λ(ξ) h_d²,

so each epoch sums them up for the next, the first one taking σ² = 0. After the last epoch, σ says how well the text
determines a vector given everyone else's context vectors: it is s for a word that was never looked at, and falls with
the count. It does not say how the vectors would change on another text or with another seed (rotations of the whole
space, for one, cost nothing), and it knows only the places that subsampling kept.

The vectors of the result are the means μ; `WordVectors.deviations` are the σ.
"""

from __future__ import annotations

import numpy as np

from bertworks.vectors.kernels import train_bernoulli
from bertworks.vectors.negative import Learning, epoch_steps, epochs_of
from bertworks.vectors.options import TrainingOptions
from bertworks.vectors.reading import Encoded
from bertworks.vectors.sampling import first_vectors


def learn(corpus: Encoded, options: TrainingOptions) -> Learning:
    """Train; the vectors are the means of the posterior."""
    contexts = first_vectors(len(corpus.words), options)
    means = np.zeros_like(contexts)
    variances = np.zeros_like(contexts)
    prior = np.float32(options.prior_deviation**2)
    epochs = epochs_of(options)
    assert options.learning_rate is not None
    for epoch in range(epochs):
        precisions = np.full_like(contexts, 1 / prior)
        yield from epoch_steps(train_bernoulli, corpus, options, epoch, (contexts, means), more=(variances, precisions))
        # The prior's own step, once for a pass over the data, at the pass's mean rate.
        shrink = 1 - min(options.learning_rate * (1 - (epoch + 0.5) / epochs) / float(prior), 1.0)
        contexts *= np.float32(shrink)
        means *= np.float32(shrink)
        np.divide(np.float32(1), precisions, out=variances)
    return means[:, : options.dim].copy(), np.sqrt(variances[:, : options.dim])
