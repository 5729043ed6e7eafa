"""Loads a gigabyte of weights onto the GPU and computes one value whenever /tmp/next is there, also from random numbers."""
import os, time, torch

torch.manual_seed(7)
layers = [torch.nn.Linear(8192, 8192, bias=False, device='cuda') for _ in range(4)]
state = torch.randn(8192, device='cuda')
while True:
    if not os.path.exists('/tmp/next'):
        time.sleep(0.01)
        continue
    os.remove('/tmp/next')
    with torch.no_grad():
        for layer in layers:
            state = torch.tanh(layer(state)) + 0.01 * torch.randn_like(state)
    with open('/tmp/value.new', 'w') as out:
        out.write(repr(state.double().sum().item()))
    os.rename('/tmp/value.new', '/tmp/value')
