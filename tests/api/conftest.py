"""What the API tests share: one server with the starter model for the session, and clients for it."""

import httpx
import openai
import pytest

from server_process import ServerProcess


@pytest.fixture(scope="session")
def server():
    with ServerProcess() as process:
        yield process
        assert process.process.poll() is None, "the server died during the tests:\n" + "".join(process.log[-50:])


@pytest.fixture(scope="session")
def http(server):
    """A plain client whose relative paths are the server's routes."""
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


@pytest.fixture(scope="session")
def sdk(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="session")
def model(http) -> str:
    return http.get("/v1/models").json()["data"][0]["id"]
