"""The queue and its thread, with work that the tests hold in their hands: no model, no times."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from bertworks.errors import UsageError
from bertworks.serve.engine import Engine, Job, Progress, Turns, Work
from bertworks.serve.metrics import Metrics
from bertworks.serve.problems import RequestError
from bertworks.serve.settings import ServeSettings


class Model:
    """Doubles numbers; waits before each batch until it is let go, and remembers the batches."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.running = threading.Semaphore(0)
        self.go = threading.Semaphore(0 if held else 1_000_000)

    def run(self, items: list[int], look: Progress) -> Sequence[int]:
        self.batches.append(list(items))
        self.running.release()
        self.go.acquire()
        look(0, len(items))
        if -1 in items:
            raise UsageError("an item is -1")
        if -2 in items:
            raise ZeroDivisionError
        return [2 * item for item in items]

    def work(self, key: str = "double") -> Work:
        return Work((key,), self.run)


def engine_for(**settings: Any) -> Engine:
    return Engine("tiny", ServeSettings(**{"batch_tokens": 10, **settings}), Metrics())


def go(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 20))


def submit(engine: Engine, work: Work, items: Sequence[int], size: int = 1) -> asyncio.Task[Job]:
    return asyncio.ensure_future(engine.submit(work, items, [size] * len(items)))


async def begun(model: Model) -> None:
    await asyncio.to_thread(model.running.acquire)


async def waiting(engine: Engine, count: int) -> None:
    while engine.waiting != count:
        await asyncio.sleep(0)


def test_a_lone_request_goes_at_once() -> None:
    async def scenario() -> None:
        model, engine = Model(), engine_for()
        job = await submit(engine, model.work(), [1, 2, 3])
        assert job.results == [2, 4, 6]
        assert model.batches == [[1, 2, 3]]
        assert (await submit(engine, model.work(), [])).results == []
        engine.close()

    go(scenario)


def test_what_gathers_is_computed_together_up_to_the_budget() -> None:
    async def scenario() -> None:
        model, engine = Model(held=True), engine_for()
        first = submit(engine, model.work(), [0])
        await begun(model)
        others = [submit(engine, model.work(), [number]) for number in range(1, 13)]
        another = submit(engine, model.work("other"), [50])
        await waiting(engine, 13)
        for _ in range(10):
            model.go.release()
        assert [job.results for job in await asyncio.gather(first, *others, another)] == [
            *([2 * number] for number in range(13)),
            [100],
        ]
        assert model.batches == [[0], list(range(1, 11)), [11, 12], [50]]
        engine.close()

    go(scenario)


def test_many_items_do_not_hold_up_a_short_request() -> None:
    async def scenario() -> None:
        model, engine = Model(held=True), engine_for()
        first = submit(engine, model.work(), [0])
        await begun(model)
        long = submit(engine, model.work(), list(range(100, 125)))
        await waiting(engine, 1)
        short = submit(engine, model.work(), [1])
        await waiting(engine, 2)
        for _ in range(10):
            model.go.release()
        await asyncio.gather(first, long, short)
        assert model.batches == [
            [0],
            list(range(100, 110)),
            [1, *range(110, 119)],
            list(range(119, 125)),
        ]
        assert (await long).results == [2 * number for number in range(100, 125)]
        engine.close()

    go(scenario)


def test_an_item_larger_than_the_budget_goes_alone() -> None:
    async def scenario() -> None:
        model, engine = Model(), engine_for()
        job = await submit(engine, model.work(), [1, 2], size=99)
        assert job.results == [2, 4]
        assert model.batches == [[1], [2]]
        engine.close()

    go(scenario)


def test_a_full_queue_refuses_at_once() -> None:
    async def scenario() -> None:
        model, engine = Model(held=True), engine_for(max_waiting=2)
        accepted = [submit(engine, model.work(), [0])]
        await begun(model)
        accepted += [submit(engine, model.work(), [number]) for number in (1, 2)]
        await waiting(engine, 2)
        with pytest.raises(RequestError, match=r"2 requests .* wait already; try again in 1 s") as refused:
            await engine.submit(model.work(), [3], [1])
        assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "1"})
        assert engine.metrics.refused.value(model="tiny") == 1
        for _ in range(5):
            model.go.release()
        assert [job.results for job in await asyncio.gather(*accepted)] == [[0], [2], [4]]
        engine.close()

    go(scenario)


def test_tokens_fill_a_queue_too_but_one_request_always_fits() -> None:
    async def scenario() -> None:
        model, engine = Model(held=True), engine_for(max_waiting_tokens=5000)
        running = submit(engine, model.work(), [0])
        await begun(model)
        large = submit(engine, model.work(), [1], size=6000)
        await waiting(engine, 1)
        assert engine.waiting_tokens == 6000
        with pytest.raises(RequestError, match="6,000 tokens wait already; try again in 3 s"):
            await engine.submit(model.work(), [3], [1])
        for _ in range(5):
            model.go.release()
        await asyncio.gather(running, large)
        engine.close()

    go(scenario)


def test_who_leaves_is_taken_out() -> None:
    async def scenario() -> None:
        model, engine = Model(held=True), engine_for()
        running = submit(engine, model.work(), [0])
        await begun(model)
        leaving, staying = submit(engine, model.work(), [1]), submit(engine, model.work(), [2])
        await waiting(engine, 2)
        leaving.cancel()
        await waiting(engine, 1)
        for _ in range(5):
            model.go.release()
        assert [job.results for job in await asyncio.gather(running, staying)] == [[0], [4]]
        assert model.batches == [[0], [2]]
        assert engine.metrics.dropped.value(model="tiny") == 1
        engine.close()

    go(scenario)


def test_a_model_stops_computing_for_nobody() -> None:
    async def scenario() -> None:
        model, engine = Model(held=True), engine_for()
        running = submit(engine, model.work(), [-2])  # would fail, if it were computed to the end
        await begun(model)
        running.cancel()
        while not running.done():
            await asyncio.sleep(0)
        model.go.release()
        model.go.release()
        assert (await submit(engine, model.work(), [4])).results == [8]
        engine.close()

    go(scenario)


def test_time_runs_out() -> None:
    async def scenario() -> None:
        model, engine = Model(held=True), engine_for(timeout_seconds=0.05)
        with pytest.raises(RequestError, match=r"not done within 0\.05 seconds") as late:
            await engine.submit(model.work(), [1], [1])
        assert late.value.status == 503
        assert engine.metrics.expired.value(model="tiny") == 1
        assert engine.metrics.dropped.value(model="tiny") == 0
        model.go.release()
        engine.close()

    go(scenario)


def test_an_error_reaches_its_own_request_only(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        model, engine = Model(held=True), engine_for()
        running = submit(engine, model.work(), [0])
        await begun(model)
        jobs = [submit(engine, model.work(), [number]) for number in (1, -1, -2, 4)]
        await waiting(engine, 4)
        for _ in range(20):
            model.go.release()
        found = await asyncio.gather(running, *jobs, return_exceptions=True)
        assert [one.results if isinstance(one, Job) else type(one) for one in found] == [
            [0],
            [2],
            UsageError,
            ZeroDivisionError,
            [8],
        ]
        assert (await submit(engine, model.work(), [5])).results == [10]  # it goes on
        engine.close()

    go(scenario)
    assert [record.message for record in caplog.records] == ["the model failed"]  # ours, not the user's


def test_closing_finishes_what_was_accepted() -> None:
    async def scenario() -> None:
        model, engine = Model(held=True), engine_for()
        jobs = [submit(engine, model.work(), [number] * 30) for number in range(3)]
        await begun(model)
        closing = asyncio.ensure_future(asyncio.to_thread(engine.close))
        while not engine._closing:
            await asyncio.sleep(0)
        with pytest.raises(RequestError, match="stopping"):
            await engine.submit(model.work(), [1], [1])
        for _ in range(50):
            model.go.release()
        assert [job.results for job in await asyncio.gather(*jobs)] == [[2 * number] * 30 for number in range(3)]
        await closing

    go(scenario)


def test_turns_are_taken_in_order() -> None:
    turns, order = Turns(), []
    threads = []
    with turns:
        for number in range(5):

            def wait(number: int = number) -> None:
                with turns:
                    order.append(number)

            threads.append(threading.Thread(target=wait))
            threads[-1].start()
            while len(turns._line) < number + 2:
                pass
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]
