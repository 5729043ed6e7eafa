"""How fast a GPU computes and copies: prints milliseconds of each step as JSON. It needs the driver's library alone; the product
of PyTorch is measured too where the Python that runs this has it."""
import ctypes, json, time

cuda = ctypes.CDLL('libcuda.so.1')
side, copied, launches, repeats = 4096, 1 << 30, 20000, 5

def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        raise SystemExit(f'{name} failed with {result}')

def size(number):
    return ctypes.c_size_t(number)

def new(kind, name, *arguments):
    made = kind()
    call(name, ctypes.byref(made), *arguments)
    return made

kernels = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry product(.param .u64 left, .param .u64 right, .param .u64 out, .param .u32 side) {
  .reg .u64 a, b, c, offset, line;
  .reg .u32 row, column, count, x, y, at;
  .reg .f32 sum, p, q;
  .reg .pred more;
  ld.param.u64 a, [left]; ld.param.u64 b, [right]; ld.param.u64 c, [out]; ld.param.u32 count, [side];
  mov.u32 x, %ctaid.x; mov.u32 y, %ntid.x; mov.u32 at, %tid.x; mad.lo.u32 column, x, y, at;
  mov.u32 x, %ctaid.y; mov.u32 y, %ntid.y; mov.u32 at, %tid.y; mad.lo.u32 row, x, y, at;
  mul.wide.u32 line, count, 4;
  mul.lo.u32 x, row, count; mul.wide.u32 offset, x, 4; add.u64 a, a, offset; add.u64 c, c, offset;
  mul.wide.u32 offset, column, 4; add.u64 b, b, offset; add.u64 c, c, offset;
  mov.f32 sum, 0f00000000; mov.u32 at, 0;
again:
  ld.global.f32 p, [a]; ld.global.f32 q, [b]; fma.rn.f32 sum, p, q, sum;
  add.u64 a, a, 4; add.u64 b, b, line; add.u32 at, at, 1;
  setp.lt.u32 more, at, count;
  @more bra again;
  st.global.f32 [c], sum;
  ret;
}
"""

def median_ms(work):
    took = []
    for _ in range(repeats + 1):
        call('cuCtxSynchronize')
        start = time.perf_counter()
        work()
        call('cuCtxSynchronize')
        took.append((time.perf_counter() - start) * 1000)
    return sorted(took[1:])[repeats // 2]  # The first one warms up.

call('cuInit', 0)
device = new(ctypes.c_int, 'cuDeviceGet', 0)
# That of PyTorch, so that both can be measured in one process.
context = new(ctypes.c_void_p, 'cuDevicePrimaryCtxRetain', device)
call('cuCtxSetCurrent', context)
module = new(ctypes.c_void_p, 'cuModuleLoadData', kernels)
nothing, product = (new(ctypes.c_void_p, 'cuModuleGetFunction', module, name) for name in (b'nothing', b'product'))
left, right, out = (new(ctypes.c_uint64, 'cuMemAlloc_v2', size(side * side * 4)) for _ in range(3))
for matrix in (left, right):
    call('cuMemsetD32_v2', matrix, 0x3f800000, size(side * side))  # 1.0
number = ctypes.c_uint32(side)
arguments = (ctypes.c_void_p * 4)(*(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in (left, right, out, number)))

def multiply():
    call('cuLaunchKernel', product, side // 32, side // 8, 1, 32, 8, 1, 0, None, arguments, None)

def launch():
    for _ in range(launches):
        cuda.cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, None, None, None)

steps = {f'product of {side} × {side}, our kernel': median_ms(multiply)}
sample = ctypes.c_float()
call('cuMemcpyDtoH_v2', ctypes.byref(sample), ctypes.c_uint64(out.value + (side * side - 1) * 4), size(4))
if sample.value != side:
    raise SystemExit(f'the product is {sample.value} instead of {side}')
host = new(ctypes.c_void_p, 'cuMemAllocHost_v2', size(copied))
ctypes.memset(host, 1, copied)
card = new(ctypes.c_uint64, 'cuMemAlloc_v2', size(copied))
steps['1 GiB to the GPU'] = median_ms(lambda: call('cuMemcpyHtoD_v2', card, host, size(copied)))
steps['1 GiB from the GPU'] = median_ms(lambda: call('cuMemcpyDtoH_v2', host, card, size(copied)))
steps[f'{launches:,} launches'] = median_ms(launch)
try:
    import torch
except ImportError:
    torch = None
if torch:
    x, y = (torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16) for _ in range(2))
    steps['10 products of 8192 × 8192 in bf16, PyTorch'] = median_ms(lambda: [x @ y for _ in range(10)])
print(json.dumps(steps))
