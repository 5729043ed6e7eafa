/**
 * Tests of fork bombs at the default limits. A user's fork bomb gets errors, and the sandbox lives on. Root's fork bomb
 * ends at most its own sandbox. The suite is for runtimes that spend their own threads and memory on every process.
 * limits.ts tests a fork bomb with a low limit under every runtime.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countOf } from '../../../../test/support/count-of.ts'
import type { SandboxExit } from '../../../core/ports/driver.ts'
import { delay } from '../../../lib/clock.ts'
import { flavourOf } from '../runtime/flavours.ts'
import type { OciSuite } from './runtimes.ts'

const nobody = 65_534
const errors = '/tmp/errors'

/** Every process forks until it gets an error and then sleeps, so that the machine has CPU time left for the test. */
const program = `while (1) { next if defined fork; my $why = $!; open my $out, ">>", "${errors}"; print $out "$why\\n"; close $out; sleep 1000 }`
const startBomb = `setsid setpriv --reuid=${nobody} --regid=${nobody} --clear-groups perl -e '${program}' \
  </dev/null >/dev/null 2>&1 &`
/** CAP_SYS_ADMIN exempts root from the limit of processes inside. */
const startRootBomb = `setsid perl -e 'while (1) { fork // sleep 1 }' </dev/null >/dev/null 2>&1 &`
const countErrors = `cat ${errors} 2>/dev/null | grep -c 'Resource temporarily unavailable'`
/** Two rounds per call, because a look through a thousand processes takes seconds on a busy machine. */
const endBomb = `for round in 1 2; do pkill -9 -u ${nobody} || break; done; pgrep -u ${nobody} | wc -l`

export const forkBombSuite: OciSuite = (runtime, open) => {
  if (!flavourOf({ runtime }).hasPlatforms) return
  describe(`a fork bomb under ${runtime}`, () => {
    // test/security/fork-bomb.test.ts tests the same under the chosen platform in every run.
    for (const platform of ['ptrace', 'systrap'].slice(0, countOf({ short: 0, long: 2 }))) {
      it(`gets errors at the real limits, and the sandbox lives on, with ${platform}`, async () => {
        const bench = await open({ platform, pidsLimit: 4096 })
        try {
          const handle = await bench.sandbox({ memoryMB: 512 })
          const exits: unknown[] = []
          bench.driver.onExit((exit) => exits.push(exit))
          await bench.run(handle, startBomb)
          while (exits.length === 0 && Number(await bench.run(handle, countErrors)) === 0) await delay(100)
          assert.deepEqual(exits, [])
          assert.equal((await bench.run(handle, 'echo alive')).trim(), 'alive')
          while (exits.length === 0 && (await bench.run(handle, endBomb)).trim() !== '0') await delay(100)
          assert.deepEqual(exits, [])
          assert.equal(await bench.driver.recover(handle), 'running')
          assert.equal((await bench.run(handle, 'echo again')).trim(), 'again')
        } finally {
          await bench.close()
        }
      })
    }

    it('of root ends its own sandbox and no other, and the exit has the reason', async () => {
      const bench = await open({ pidsLimit: 64 })
      try {
        // The memory is enough for more processes than the host's limit allows.
        const [mine, theirs] = [await bench.sandbox({ memoryMB: 1024 }), await bench.sandbox()]
        const exits: SandboxExit[] = []
        bench.driver.onExit((exit) => exits.push(exit))
        await bench.run(mine, startRootBomb)
        while (exits.length === 0) {
          assert.equal((await bench.run(theirs, 'echo alive')).trim(), 'alive')
          await delay(100)
        }
        assert.deepEqual(
          exits.map(({ runID, detail }) => [runID, detail]),
          [[mine.data.runID, 'It needed more processes and threads of the server than it may have.']],
        )
        assert.equal((await bench.run(theirs, 'echo again')).trim(), 'again')
      } finally {
        await bench.close()
      }
    })
  })
}
