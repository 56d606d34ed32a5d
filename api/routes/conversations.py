"""Conversations over WebSockets: our own messages, and ElevenLabs'."""

from fastapi import APIRouter, WebSocket

from api.conversation import Conversation
from api.conversation_messages import Native
from api.elevenlabs_socket import StreamInput

router = APIRouter(tags=["conversations"])


@router.websocket("/v1/conversation")
async def converse(socket: WebSocket) -> None:
    """Text in pieces in, speech out while it comes."""
    await Conversation(socket, socket.app.state.context, Native()).run()


@router.websocket("/v1/text-to-speech/{voice_id}/stream-input")
async def stream_input(socket: WebSocket, voice_id: str) -> None:
    """The same in ElevenLabs' messages."""
    dialect = StreamInput(voice_id, dict(socket.query_params))
    await Conversation(socket, socket.app.state.context, dialect).run()
