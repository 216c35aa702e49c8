# A server for any model, with the offline one inside:
#
#   docker build -t bertworks .
#   docker run --rm -p 127.0.0.1:8000:8000 bertworks
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/runs:/models:ro" bertworks minilm sentiment=/models/sst2
#
# PIP_OPTIONS may name another index, for instance one with PyTorch for processors only, which is a fifth of the size.
FROM python:3.11-slim

ARG PIP_OPTIONS=""
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    OMP_WAIT_POLICY=passive \
    HF_HOME=/tmp/huggingface \
    NUMBA_CACHE_DIR=/tmp/numba

WORKDIR /app
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src ./src
# hadolint ignore=SC2086  # options are words
RUN pip install ${PIP_OPTIONS} --constraint constraints.txt '.[offline,fast,serve,index]' \
    && useradd --system --no-create-home --uid 10001 bertworks

USER 10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD \
    ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=2)"]

# TERM, which `docker stop` sends, lets the server finish what it has accepted.
ENTRYPOINT ["bertworks", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["minilm"]
