"""The socket that the server listens on."""

import asyncio
import socket

from api.server import _bind
from api.settings import Settings


def test_replies_are_sent_at_once_and_not_held_back_for_an_acknowledgement() -> None:
    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            found.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        bound = _bind(Settings(port=0))
        async with await asyncio.start_server(look, sock=bound):
            _, writer = await asyncio.open_connection(*bound.getsockname()[:2])
            no_delay = await found
            writer.close()
            return no_delay

    assert asyncio.run(accepted())
