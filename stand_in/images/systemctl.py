"""The client of stand_in/images/host.py: systemctl.py SOCKET systemctl|journalctl ARGUMENTS..."""

import json
import socket
import sys

with socket.socket(socket.AF_UNIX) as init:
    init.connect(sys.argv[1])
    init.sendall(json.dumps([sys.argv[2], sys.argv[3:]]).encode() + b"\n")
    status, said = json.loads(init.makefile().readline())
if said:
    print(said)
sys.exit(status)
