"""Every column comes back as it was written: any text, long ids, large numbers, and nothing where there was nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from betimes.core.segments import Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.store import Attempt, Changes, EffectQuery, LedgerQuery, StreamQuery
from betimes.testing.conformance.expectations import expect, expect_equal
from betimes.testing.conformance.pairs import Pair
from betimes.testing.conformance.samples import (
    KEY,
    A,
    B,
    call,
    causing,
    digest_of,
    keyed,
    moved,
    segment,
    send,
    settled,
    together,
    used,
    write,
)

AWKWARD = 'it\'s "quoted" \\ back\\slash\ttab\nline %s %% $1 ? :x {} Ünïcödé 日本語 🕰️ \u2028 \u200d \ufeff'
AWKWARD_JSON = (
    r'{"nul":"a\u0000b","slash":"\\\/","surrogates":"\ud83d\udd70","big":123456789012345678901234567890,'
    r'"exact":0.1000,"z":1,"a":2,"z":3}'
)
LONG_ID = "L" + "ong-id.~:@+|=*_" * 13 + "ends"
FAR = 253_402_300_799_999_999
LARGE = 2**53 + 1


async def _roundtrip(pair: Pair, written: Segment) -> None:
    await pair.commit(Changes(streams=[write(written.stream, written.version, 0)], segments=[written]))
    for store in (pair.one, pair.two):
        [ledgered] = await store.ledger(LedgerQuery())
        _, [found] = await store.history(written.stream, 0, 10)
        expect_equal(found, ledgered, "the segment in its history and in the ledger")
        expect(found.seq > 0, "a committed segment has a position in the ledger")
        expect_equal(replace(found, seq=0), written, "the segment as it was written")


async def a_segment_with_everything_set_comes_back_unchanged(pair: Pair) -> None:
    everything = segment(
        A,
        1,
        FAR,
        turn="t" * 64,
        schema=7,
        command=AWKWARD_JSON,
        events=f"[{AWKWARD_JSON}]",
        key=KEY,
        verdict=AWKWARD_JSON,
        reply=AWKWARD_JSON,
        actor=AWKWARD,
        correlation=AWKWARD,
        cause=AWKWARD,
    )
    await _roundtrip(pair, everything)


async def a_segment_with_nothing_set_comes_back_unchanged(pair: Pair) -> None:
    await _roundtrip(pair, segment(A, 1, 0, command=None, events="[]"))


async def an_empty_text_is_not_a_missing_one(pair: Pair) -> None:
    await _roundtrip(pair, segment(A, 1, 0, command="", verdict="", reply="", events=""))


async def json_text_comes_back_byte_for_byte(pair: Pair) -> None:
    changes = moved(A, 1, pair.clock(), state=AWKWARD_JSON)
    await pair.commit(changes)
    expect_equal((await pair.two.load([A]))[A].state, AWKWARD_JSON, "the state's text")
    [listed] = await pair.two.streams(StreamQuery())
    expect_equal(listed.state, AWKWARD_JSON, "the state's text as it is listed")


async def long_ids_come_back_unchanged(pair: Pair) -> None:
    expect_equal(len(LONG_ID), 200, "the length of a long id")
    of, key = StreamId(LONG_ID, "k" * 32, LONG_ID), KeyId(LONG_ID, "c" * 32, LONG_ID)
    await pair.commit(together(keyed(key, of, 1, pair.clock()), Changes(effects=[call(of, 1, pair.clock())])))
    expect_equal(set(await pair.two.load([of])), {of}, "the stream")
    seen = await pair.two.seen(key)
    expect_equal(seen and (seen.segment.stream, seen.segment.key), (of, key), "the key's segment")
    [lease] = await pair.two.lease_calls(["handler:brief"], 1)
    expect_equal(lease.call.id, EffectId(*of, 1, 0), "the effect")


async def large_numbers_come_back_unchanged(pair: Pair) -> None:
    changes = Changes(
        streams=[write(A, LARGE, FAR, expected=0, alarm_at=FAR, due_at=FAR - 1, schema=2**31 - 1)],
        segments=[segment(A, LARGE, FAR)],
        keys=[used(KEY, A, LARGE, FAR, expires_at=FAR)],
        effects=[call(A, LARGE, FAR, lease_s=2**31 - 1, attempts_max=2**31 - 1)],
    )
    await pair.commit(changes)
    expect_equal(await pair.two.load([A]), {A: changes.streams[0].row()}, "the row")
    row, [found] = await pair.two.history(A, LARGE - 1, 10)
    expect_equal(row and (row.due_at, row.alarm_at), (FAR - 1, FAR), "the instants of the listed row")
    expect_equal((found.version, found.at), (LARGE, FAR), "the segment's version and instant")
    [effect] = await pair.two.effects(EffectQuery())
    expect_equal((effect.id, effect.next_attempt_at), (EffectId(*A, LARGE, 0), FAR), "the effect")


async def a_listed_stream_comes_back_with_every_column(pair: Pair) -> None:
    now = pair.clock()
    written = write(
        A, 1, now, schema=3, alarm_at=now + 1, due_at=now + 2, listed_at=now + 4, status=AWKWARD, owner=AWKWARD
    )
    await pair.commit(Changes(streams=[written], segments=[segment(A, 1, now)]))
    await pair.one.snooze(A, 1, now + 3, AWKWARD)
    [listed] = await pair.two.streams(StreamQuery(owner=AWKWARD, status=AWKWARD))
    wanted = (A, 1, 3, '{"n":1}', now, now + 1, AWKWARD, AWKWARD, now + 2, digest_of(A, 1), now + 3, now, now + 4)
    expect_equal(tuple(listed), (*wanted, AWKWARD), "the listed row")
    row, _ = await pair.two.history(A, 0, 1)
    expect_equal(row, listed, "the row beside its history")


async def a_request_under_an_awkward_key_comes_back_unchanged(pair: Pair) -> None:
    key = KEY._replace(key="schlüssel 🗝 'quoted' \\ %")
    await pair.commit(keyed(key, A, 1, pair.clock(), request=AWKWARD_JSON))
    for store in (pair.one, pair.two):
        seen = await store.seen(key)
        expect_equal(seen and seen.request, AWKWARD_JSON, "the request as sent")
        expect_equal(seen and seen.segment.key, key, "the segment's key")


async def a_call_comes_back_with_every_column(pair: Pair) -> None:
    now = pair.clock()
    payload: dict[str, Any] = {"text": AWKWARD, "nul": "a\x00b", "list": [1, None, True, 2**60]}
    wanted = call(
        A,
        1,
        now,
        place=300,
        executor="webhook:crm",
        payload=msgspec.json.encode(payload).decode(),
        at_most_once=True,
        attempts_max=9,
        lease_s=77,
        to=B,
    )
    await pair.commit(causing(A, 1, now, wanted))
    [row] = await pair.two.effects(EffectQuery())
    listed = (wanted.id, "webhook:crm", wanted.payload, "pending", 0, now, now, None, "", True, B, ())
    expect_equal(tuple(row), listed, "the call as it is listed")
    [lease] = await pair.two.lease_calls(["webhook:crm"], 1)
    found = lease.call
    expect_equal(found.payload, payload, "the decoded payload")
    expect_equal((found.id, found.executor, found.created_at), (wanted.id, "webhook:crm", now), "what is called")
    expect_equal((found.lease_s, found.at_most_once, found.attempts_max, found.report_to), (77, True, 9, B), "how")


async def a_send_comes_back_with_every_column(pair: Pair) -> None:
    now = pair.clock()
    to = StreamId(LONG_ID, "other", LONG_ID)
    wanted = send(A, 1, now, to, payload=AWKWARD_JSON)
    await pair.commit(causing(A, 1, now, wanted))
    [waiting] = await pair.two.waiting_sends(10, created_before=now + 1)
    expect_equal(tuple(waiting), (wanted.id, to, AWKWARD_JSON, now), "the send that waits")
    [row] = await pair.two.effects(EffectQuery())
    expect_equal(
        (row.id, row.executor, row.payload, row.status, row.to),
        (wanted.id, "send", AWKWARD_JSON, "pending", to),
        "the send as it is listed",
    )


async def an_error_text_comes_back_unchanged(pair: Pair) -> None:
    now = pair.clock()
    called = call(B, 1, now)
    await pair.commit(causing(B, 1, now, called))
    [lease] = await pair.one.lease_calls([called.executor], 1)
    await pair.commit(settled(called.id, lease.call.fence, "dead", now, error=AWKWARD))
    [row] = await pair.two.effects(EffectQuery())
    expect_equal((row.status, row.last_error, row.finished_at), ("dead", AWKWARD, now), "the dead letter")
    expect_equal(row.history, (Attempt(now, False, AWKWARD, None),), "its history")
