import pytest
from encoder_media import recording

from encoder.audio import Decoder
from encoder.engine import SpeakerEncoder


@pytest.fixture(scope="session")
def encoder():
    return SpeakerEncoder.load()


@pytest.fixture(scope="session")
def decoder():
    with Decoder(workers=1) as decoder:
        yield decoder


@pytest.fixture(scope="session")
def man():
    return recording("man")


@pytest.fixture(scope="session")
def man_again():
    return recording("man-again")


@pytest.fixture(scope="session")
def woman():
    return recording("woman")
