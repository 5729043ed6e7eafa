"""Starts work on the GPU that never ends, and says so in FILE: hang.py FILE."""
import ctypes, sys, time

cuda = ctypes.CDLL('libcuda.so.1')
kernel = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry forever(.param .u64 place) {
  .reg .u64 address; .reg .u32 value; .reg .pred more;
  ld.param.u64 address, [place];
again:
  ld.volatile.global.u32 value, [address]; setp.eq.u32 more, value, 0;
  @more bra again;
  ret;
}
"""
device, context, module, function, place = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), kernel) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'forever') == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(place), 4096) == 0 and cuda.cuMemsetD32_v2(place, 0, 1024) == 0
arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(place), ctypes.c_void_p))
assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None) == 0
open(sys.argv[1], 'w').write('hangs')
time.sleep(1e6)
