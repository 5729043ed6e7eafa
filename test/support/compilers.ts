/** The compilers of Debian 12 with which the files in `native/built` are made, as `native/build` chooses them. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

export const compilers = { x64: 'x86_64-linux-gnu-gcc', arm64: 'aarch64-linux-gnu-gcc' }
export const ownCompiler = compilers[process.arch as keyof typeof compilers]

const pinned = /^\S+-gcc \(Debian 12\.2\.0-\d+\S*\) 12\.2\.0$/m

/** For each machine a test, which makes the shipped file again with `script` and compares the two. */
export function testShipped(
  script: string,
  { shipped, build }: { shipped: (machine: string) => string; build: (machine: string) => string },
): void {
  for (const [machine, compiler] of Object.entries(compilers)) {
    test(`for ${machine} is byte for byte the build of its source`, (context) => {
      const { stdout } = spawnSync(compiler, ['--version'], { encoding: 'utf8' })
      if (!pinned.test(stdout ?? '')) return context.skip(`${compiler} of Debian 12 is not here`)
      const isSame = readFileSync(build(machine)).equals(readFileSync(shipped(machine)))
      assert.ok(isSame, `A source was changed: run ${script} ${machine} ${shipped(machine)}`)
    })
  }
}
