# Floods CPU 0 with packets for a while, from CPU 1, in a network and a file system view of its own: both end with it.
# $1: seconds at most.
set -eu
mount -t sysfs sysfs /sys
ip link set lo up
echo 1 > /sys/class/net/lo/queues/rx-0/rps_cpus
exec taskset -c 1 python3 - "$1" <<'PYTHON'
import ctypes
import socket
import sys
import time

ctypes.CDLL(None).prctl(1, 9)
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect(receiver.getsockname())
end = time.monotonic() + float(sys.argv[1])
packet = bytes(64)
while time.monotonic() < end:
    for _ in range(1000):
        sender.send(packet)
PYTHON
