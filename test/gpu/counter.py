"""Counts on the GPU beside a large piece of memory with a known pattern, by the driver's library alone: no toolkit is needed.
counter.py FILE MEGABYTES [busy]   writes '<count> <whether the pattern is whole>' into FILE after each step."""
import ctypes, os, sys, time

cuda = ctypes.CDLL('libcuda.so.1')
file, megabytes, busy = sys.argv[1], int(sys.argv[2]), len(sys.argv) > 3

def check(result, what):
    if result:
        open(file, 'w').write(f'failed: {what} {result}')
        sys.exit(1)

kernel = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 place) {
  .reg .u64 address; .reg .u32 value;
  ld.param.u64 address, [place]; ld.global.u32 value, [address]; add.u32 value, value, 1; st.global.u32 [address], value; ret;
}
"""
device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuInit(0), 'init')
check(cuda.cuDeviceGet(ctypes.byref(device), 0), 'device')
check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device), 'context')
check(cuda.cuModuleLoadData(ctypes.byref(module), kernel), 'module')
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b'step'), 'function')
place, large, words = ctypes.c_uint64(), ctypes.c_uint64(), megabytes << 18
check(cuda.cuMemAlloc_v2(ctypes.byref(place), 4096), 'counter')
check(cuda.cuMemAlloc_v2(ctypes.byref(large), ctypes.c_size_t(words * 4)), 'memory')
check(cuda.cuMemsetD32_v2(place, 0, 1024), 'zero')
pattern = 0x5eed0000 | (os.getpid() & 0xffff)
check(cuda.cuMemsetD32_v2(large, pattern, ctypes.c_size_t(words)), 'fill')
arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(place), ctypes.c_void_p))
sample, count = (ctypes.c_uint32 * 1024)(), ctypes.c_uint32()
while True:
    for _ in range(2000 if busy else 1):
        check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None), 'launch')
    check(cuda.cuCtxSynchronize(), 'synchronize')
    check(cuda.cuMemcpyDtoH_v2(ctypes.byref(count), place, 4), 'read')
    whole = True
    for part in range(16):
        at = ctypes.c_uint64(large.value + part * (words // 16) * 4)
        check(cuda.cuMemcpyDtoH_v2(sample, at, 4096), 'sample')
        whole = whole and all(value == pattern for value in sample)
    with open(file + '.new', 'w') as out:
        out.write(f'{count.value} {whole}')
    os.rename(file + '.new', file)
    if not busy:
        time.sleep(0.05)
