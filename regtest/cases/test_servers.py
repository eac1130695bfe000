"""test_servers - real servers are recorded from their start and attached to: their clients do not notice.

The table of servers is regtest/programs/servers.py. Which of them run is chosen as for test_programs.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import sys
import tempfile
from pathlib import Path

import pytest

from support import SOURCE

sys.path.insert(0, str(SOURCE / "regtest/programs"))
from chosen import chosen  # noqa: E402
from recorded import missing  # noqa: E402
from servers import SERVERS, Server  # noqa: E402
from serving import wrongs  # noqa: E402


@pytest.mark.parametrize("server", chosen(SERVERS), ids=lambda server: server.name)
def test_server(server: Server) -> None:
    if lack := missing(server):
        pytest.skip(lack)
    with tempfile.TemporaryDirectory(prefix="ljtrace-server-", dir="/tmp") as folder:  # where other users may go
        if found := wrongs(server, Path(folder)):
            pytest.fail("\n".join([server.name, *found]), pytrace=False)
