/**
 * Writes the first root of the emulated machine: busybox and the modules that reach its disk.
 *   make-initrd.ts ROOT KERNEL OUT
 * It starts /guest-init of the disk.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'

const [root, kernel, out] = process.argv.slice(2) as [string, string, string]
const modules = join(root, 'lib/modules', kernel)
const dependencies = new Map(
  readFileSync(join(modules, 'modules.dep'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const [name, needed] = line.split(':') as [string, string]
      return [name, needed.trim().split(' ').filter(Boolean)] as const
    }),
)

/** What a module needs comes before it. */
function inOrder(names: readonly string[]): string[] {
  const order = new Set<string>()
  for (const name of names) {
    const path = [...dependencies.keys()].find((one) => basename(one) === `${name}.ko`)
    if (path === undefined) throw new Error(`The kernel ${kernel} has no module ${name}`)
    for (const needed of dependencies.get(path)!.toReversed()) order.add(needed)
    order.add(path)
  }
  return [...order]
}

const parts: Buffer[] = []
const padded = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)])

/** One entry of the format "newc" of cpio. */
function add(name: string, mode: number, data = Buffer.alloc(0), device: [number, number] = [0, 0]): void {
  const named = Buffer.from(`${name}\0`)
  const fields = [parts.length, mode, 0, 0, 1, 0, data.length, 0, 0, ...device, named.length, 0]
  const header = `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}`
  parts.push(padded(Buffer.concat([Buffer.from(header), named])), padded(data))
}

const [folder, file, deviceNode] = [0o40755, 0o100755, 0o20600]
for (const name of ['bin', 'dev', 'modules', 'disk']) add(name, folder)
add('dev/console', deviceNode, undefined, [5, 1])
add('bin/busybox', file, readFileSync(join(root, 'bin/busybox')))
const loaded = inOrder(['virtio_mmio', 'virtio_blk', 'crc32c_generic', 'ext4'])
for (const [index, path] of loaded.entries())
  add(`modules/${index}.ko`, file, readFileSync(join(modules, path)))
const first = [
  '#!/bin/busybox sh',
  'export PATH=/bin',
  '/bin/busybox mount -t devtmpfs dev /dev',
  ...loaded.map((_, index) => `/bin/busybox insmod /modules/${index}.ko`),
  '/bin/busybox mount -t ext4 /dev/vda /disk',
  'exec /bin/busybox switch_root /disk /guest-init',
]
add('init', file, Buffer.from(`${first.join('\n')}\n`))
add('TRAILER!!!', 0)
writeFileSync(out, Buffer.concat(parts))
