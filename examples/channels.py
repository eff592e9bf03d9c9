"""A channel of one's own: the message that waited for the morning is handed to a Python function, once."""

import asyncio

from betimes import Betimes, ChannelMessage, GiveUp, HandlerContext, VirtualClock

clock = VirtualClock("2026-01-05T01:10:00Z")
bt = Betimes("memory://", clock=clock)


@bt.channel("push")
async def push(message: ChannelMessage, context: HandlerContext) -> None:
    if message.address is None:
        raise GiveUp(f"{message.user_id} has no device")  # any other error is tried again
    print(f"to {message.address}: {message.title}: {message.message} ({context.effect_id})")


async def main() -> None:
    async with bt:
        night = [{"start": "22:00", "end": "07:00"}]
        ana = {"timezone": "Europe/Berlin", "quiet_hours": night, "addresses": {"push": "device-7"}}
        await bt.notifications.set_preferences("ana", ana)
        note = {"event_id": "evt-1", "event_type": "MESSAGE", "priority_hint": "HIGH", "source": "chat"}
        said = {"user_id": "ana", "channels": ["push"], "title": "Tom replied", "message": "See you at nine?"}
        verdict = await bt.notifications.send({**note, **said})
        print(verdict.outcome, verdict.explanation)
        await bt.advance(to="2026-01-05T06:05:00Z")
        print((await bt.notifications.notification("evt-1")).status)


asyncio.run(main())
