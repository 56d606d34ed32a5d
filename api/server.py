"""The server process: binds a socket, says where it listens, drains at SIGTERM."""

import contextlib
import logging
import socket
import sys
from collections.abc import Generator
from types import FrameType

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from api.access import check_binding
from api.app import create_app
from api.conversing import MAX_MESSAGE_BYTES
from api.errors import SettingsError
from api.settings import Settings

logger = logging.getLogger("voicekin")
_BACKLOG = 2048
# No message that is taken is larger; what is larger is not even read.
_MOST_FRAME_BYTES = 2 * MAX_MESSAGE_BYTES
_OURS = ("voicekin", "encoder", "cloning", "store")


class _Server(uvicorn.Server):
    """Ends with exit code 0 after it has drained, and is not ready from the first signal on."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.config.loaded_app.app.state.context.host.draining = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.loaded_app.app.state.context.conversations.drain()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        with super().capture_signals():
            yield
            # A signal that was obeyed is not raised again: that would be an exit by signal.
            self._captured_signals.clear()


class _Socket(WebSocketsSansIOProtocol):
    """A WebSocket whose conversation ends by itself when the server stops, and that no reader can keep open."""

    def shutdown(self) -> None:
        if not self.handshake_complete:
            super().shutdown()

    async def run_asgi(self) -> None:
        try:
            await super().run_asgi()
        finally:
            # Whoever does not read would hold what is still to be sent for ever.
            self.loop.call_later(2 * self.close_timeout, self.transport.abort)


def serve(settings: Settings) -> None:
    """Serves until a signal. Raises: SettingsError where the address cannot be used, or not without keys.

    Also where a limit of device memory is set and there is no device that it bounds.
    """
    check_binding(settings, settings.host)
    settings.memory_bound()
    words = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(level="WARNING", stream=sys.stderr, format=words)
    for name in _OURS:
        logging.getLogger(name).setLevel(settings.log_level.upper())
    with contextlib.closing(_bind(settings)) as bound:
        host, port = bound.getsockname()[:2]
        if not settings.keys() and not settings.require_keys:
            words = "no keys are configured: until `voicekin keys` makes one, all who reach %s may enrol and speak"
            logger.warning(words, settings.host)
        sys.stdout.write(f"Voicekin listens on http://{host if ':' not in host else f'[{host}]'}:{port}\n")
        sys.stdout.flush()
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=settings.drain_s,
            lifespan="on",
            ws=_Socket,
            ws_max_size=_MOST_FRAME_BYTES,
            # A player that reads at the speed of speech answers late; who is gone is found by its silence.
            ws_ping_timeout=None,
            # Audio does not become smaller, and what is small can grow to anything.
            ws_per_message_deflate=False,
        )
        _Server(config).run(sockets=[bound])


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named, so that the event loop knows it for TCP and sends small pieces at once: unnamed, the end of each reply
    # waits for the client's acknowledgement of its beginning, which comes 40 ms late.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
        # From here on a connection waits instead of being refused, also while the application starts.
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise SettingsError(
            "settings_invalid", f"cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        ) from None
    bound.set_inheritable(True)
    return bound
