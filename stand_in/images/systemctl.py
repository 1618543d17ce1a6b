"""The client of stand_in/images/host.py: systemctl.py SOCKET systemctl|journalctl ARGUMENTS..."""

import json
import os
import socket
import sys
from pathlib import Path

address = Path(sys.argv[1])
folder = os.open(address.parent, os.O_PATH | os.O_DIRECTORY)  # as host.py has it
with socket.socket(socket.AF_UNIX) as init:
    init.connect(f"/proc/self/fd/{folder}/{address.name}")
    init.sendall(json.dumps([sys.argv[2], sys.argv[3:]]).encode() + b"\n")
    status, said = json.loads(init.makefile().readline())
if said:
    print(said)
sys.exit(status)
