/**
 * The recipe of the template `pytorch`: the code interpreter with PyTorch and its CUDA libraries. A kernel keeps its model on the
 * GPU over a pause. Without a GPU it computes on CPUs.
 */
import type { BuiltInRecipe } from '../../core/template/built-in-templates.ts'
import { codeInterpreterRecipe } from './code-interpreter-recipe.ts'

/** The wheels and what is unpacked of them lie on the disk together while pip installs. */
const minDiskMB = 20 * 1024
const furtherPackages = ['torchvision', 'torchaudio', 'transformers', 'accelerate', 'safetensors']
const check = `python3 -c "import torch; print('PyTorch', torch.__version__, 'with CUDA', torch.version.cuda, float(torch.ones(8, 8).sum()))"`

const size =
  'PyTorch with its CUDA libraries: it downloads about 3 GB, takes about 6 GB of disk, and several minutes.'
const noGpu =
  'Sandboxes have no GPU here (WARREN_GPUS), so those of this template compute on CPUs. Add it again once they have one.'

/** `hasGpus`: sandboxes of this machine can have one, and those of the template get it. */
export function pytorchRecipe(diskMB: number, hasGpus: boolean): BuiltInRecipe {
  const interpreter = codeInterpreterRecipe(diskMB)
  return {
    alias: 'pytorch',
    name: 'pytorch',
    about: 'The code interpreter with PyTorch and its CUDA libraries.',
    sizes: {
      cpuCount: 4,
      memoryMB: 8192,
      diskMB: Math.max(diskMB, minDiskMB),
      gpuCount: hasGpus ? 1 : 0,
    },
    seconds: 600,
    note: hasGpus ? size : `${size} ${noGpu}`,
    async request(options) {
      // The code interpreter's steps come first: where it was built before, they are in the cache.
      const { steps, ...request } = await interpreter.request(options)
      const packages = ['torch', ...(options.full ? furtherPackages : [])]
      const install = `pip install --no-cache-dir --no-compile --progress-bar off --disable-pip-version-check ${packages.join(' ')}`
      const step = { type: 'RUN' as const, filesHash: null, force: false }
      return {
        ...request,
        steps: [...steps, { ...step, args: [install, 'root'] }, { ...step, args: [check, 'root'] }],
      }
    },
  }
}
