"""Calls the GPU's devices with wrong and half-right arguments for a while: fuzz.py SECONDS SEED. Prints how many calls it made, and
how many the driver or gVisor rejected. It allocates no GPU memory on purpose and starts nothing on the card."""
import ctypes, errno, mmap, os, random, struct, sys, time

seconds, seed = float(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)
libc = ctypes.CDLL(None, use_errno=True)
devices = [path for path in ('/dev/nvidiactl', '/dev/nvidia0', '/dev/nvidia-uvm', '/dev/nvidia-uvm-tools') if os.path.exists(path)]
# Of the frontend devices: numbers that the driver has, and some it has not. Those of UVM are plain numbers.
frontend = list(range(200, 222)) + list(range(0x20, 0x60))
sizes = [0, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 96, 128, 160, 192, 256, 512, 1024, 4096]
words = [0, 1, 2, 3, 0x41, 0x80, 0x2080, 0xc1d00001, 0xcaf00001, 0xffffffff, 0x7fffffff, 0x80000000, 0xdead0000]

def payload(size):
    kind = rng.random()
    if kind < 0.3:
        return bytearray(size)
    if kind < 0.6:
        return bytearray(rng.randbytes(size))
    data = bytearray(size)
    for at in range(0, size - 3, 4):
        struct.pack_into('<I', data, at, rng.choice(words) if rng.random() < 0.7 else rng.getrandbits(32))
    return data

calls = rejected = crossed = 0
opened = {}
end = time.monotonic() + seconds
while time.monotonic() < end:
    path = rng.choice(devices)
    if path not in opened or rng.random() < 0.01:
        if path in opened:
            os.close(opened.pop(path))
        try:
            opened[path] = os.open(path, os.O_RDWR)
        except OSError:
            rejected += 1
            continue
    fd, size = opened[path], rng.choice(sizes)
    data = payload(size)
    if rng.random() < 0.05:
        calls += 1
        try:
            mmap.mmap(fd, 4096, offset=rng.choice([0, 4096, 1 << 20, rng.getrandbits(30) << 12])).close()
        except (OSError, ValueError, OverflowError):
            rejected += 1
        continue
    if 'uvm' in path:
        request = rng.choice([rng.randrange(0, 120), 0x30000001, 0x30000002, rng.getrandbits(32)])
    else:
        request = (3 << 30) | (size << 16) | (ord('F') << 8) | rng.choice(frontend)
    buffer = (ctypes.c_char * max(size, 4096)).from_buffer_copy(bytes(data).ljust(max(size, 4096), b'\0'))
    address = ctypes.addressof(buffer) if rng.random() < 0.95 else rng.choice([0, 1, 0xffff800000000000])
    calls += 1
    if libc.ioctl(fd, ctypes.c_ulong(request), ctypes.c_void_p(address)) == -1:
        rejected += 1
        if ctypes.get_errno() == errno.EFAULT:
            crossed += 1
print(f'{calls} calls, {rejected} rejected, {crossed} with a bad address, seed {seed}')
