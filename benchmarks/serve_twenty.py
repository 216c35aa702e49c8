"""The server that a user would write in twenty lines: FastAPI + sentence-transformers.

`uvicorn benchmarks.serve_twenty:app` computes each request in one of FastAPI's threads; `:blocking_app` computes in the
event loop, one request after the other. The model is the directory in the variable MODEL.
"""

import os

from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

app = FastAPI()
blocking_app = FastAPI()
model = SentenceTransformer(os.environ["MODEL"], device="cpu")


class Texts(BaseModel):
    texts: list[str]


@app.post("/embed")
def embed(body: Texts) -> dict[str, list[list[float]]]:
    return {"vectors": model.encode(body.texts, show_progress_bar=False).tolist()}


@blocking_app.post("/embed")
async def embed_in_the_loop(body: Texts) -> dict[str, list[list[float]]]:
    return {"vectors": model.encode(body.texts, show_progress_bar=False).tolist()}
