"""Takes most of the GPU's free memory without writing to it, and prints how many words of it hold the counter's pattern."""
import ctypes

cuda = ctypes.CDLL('libcuda.so.1')
device, context, free, total = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
piece, found, looked = 1 << 30, 0, 0
sample = (ctypes.c_uint32 * (1 << 18))()
for _ in range(int(free.value * 0.95) // piece):
    place = ctypes.c_uint64()
    if cuda.cuMemAlloc_v2(ctypes.byref(place), piece):
        break
    for part in range(4):
        assert cuda.cuMemcpyDtoH_v2(sample, ctypes.c_uint64(place.value + part * (piece // 4)), ctypes.sizeof(sample)) == 0
        words = memoryview(sample).cast('B').cast('I')
        looked += 1
        found += sum(1 for at in range(0, len(words), 64) if words[at] >> 16 == 0x5eed)
print(found, 'of', looked, 'samples')
