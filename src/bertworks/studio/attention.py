"""Route of the attention view."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from bertworks.studio.attention_data import attention_picture
from bertworks.studio.models import Models


class AttentionRequest(BaseModel):
    """What to look at; `pair` is a second text, or the translation of the first."""

    model: str
    text: str
    pair: str | None = None


def router(models: Models) -> APIRouter:
    """`POST /api/attention`: the weights of every head."""
    routes = APIRouter()

    @routes.post("/api/attention")
    def attention(request: AttentionRequest) -> dict[str, Any]:
        with models.use(request.model) as loaded:
            picture = attention_picture(loaded, request.text, request.pair)
        return picture.as_json(request.model)

    return routes
