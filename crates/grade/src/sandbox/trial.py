# Attempts each harm; names those that could not be done.
import os, sys

answers = int(sys.argv[1])
memory = int(sys.stdin.buffer.read())


def prevented(attempt):
    try:
        attempt()
    except BaseException:
        return True
    return False


def read_outside():
    open("/etc/passwd").close()


def list_processes():
    os.listdir("/proc")


def write_outside():
    for folder in ("/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~")):
        try:
            descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY)
        except OSError:
            continue
        os.close(descriptor)
        return
    raise OSError


def reach_network():
    import _socket

    # Of a datagram socket this only looks for a route: nothing is sent.
    _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM).connect(("192.0.2.1", 9))


def start_process():
    if os.fork() == 0:
        os._exit(0)


def take_memory():
    bytearray(memory)


found = []
if prevented(read_outside) and prevented(list_processes) and prevented(write_outside):
    found.append("files")
if prevented(reach_network):
    found.append("network")
if prevented(start_process):
    found.append("processes")
if prevented(take_memory):
    found.append("memory")
os.write(answers, (" ".join(found + ["done"])).encode())
