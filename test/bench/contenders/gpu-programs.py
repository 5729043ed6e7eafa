"""What a user of PyTorch waits for: prints milliseconds of each step of a small transformer as JSON.

Its answer grows by one token at a time, so each token needs kernels for a length that was not met before; then the same lengths
once more. There are no steps where PyTorch is missing."""
import json, os, sys, tempfile, time

start = time.perf_counter()
try:
    import torch
except ImportError:
    print('{}')
    sys.exit()
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

width, heads, layers, words, prompt, tokens = 1024, 8, 12, 32000, 40, 10
steps = {'program: import of PyTorch': (time.perf_counter() - start) * 1000}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.wide(self.after(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.layers = nn.Sequential(*(Layer() for _ in range(layers)))

    def forward(self, ids):
        return self.head(self.layers(self.embedding(ids)))


def timed(name, work, times=1):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        result = work()
    torch.cuda.synchronize()
    steps[f'program: {name}'] = (time.perf_counter() - begin) * 1000 / times
    return result


def answer(ids):
    for _ in range(tokens):
        ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
    return ids


def train():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(batch).flatten(0, 1).float(), batch.flatten())
    loss.backward()
    optimizer.step()


torch.manual_seed(7)
timed('first use of the card', lambda: torch.ones(1, device='cuda') + 1)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'model.pt')
    torch.save(Model().to(torch.bfloat16).state_dict(), path)
    model = Model().to(torch.bfloat16)
    timed('load of a model of 0.4 GB', lambda: model.load_state_dict(torch.load(path, map_location='cpu')) and model.cuda())
ids = torch.randint(words, (1, prompt), device='cuda')
# Of PyTorch's ways to compute attention, this one builds a kernel for each length.
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), torch.no_grad():
    timed('first token', lambda: model(ids))
    grown = timed(f'{tokens} tokens, lengths not met before', lambda: answer(ids))
    again = timed(f'{tokens} tokens, the same lengths', lambda: answer(ids))
if not torch.equal(grown, again):
    raise SystemExit('the same prompt gave two answers')
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
batch = torch.randint(words, (4, 512), device='cuda')
timed('first training step', train)
timed('training step', train, 10)
print(json.dumps(steps))
