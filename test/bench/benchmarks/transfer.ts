/**
 * A large file in and out of a sandbox through the client, beside the same bytes between two Node processes:
 * from and to a file, as in a sandbox, and from and to memory only.
 */
import { Sandbox } from 'e2b'
import type { BenchMachine } from '../bench-machine.ts'
import { type BareServer, startBareServer } from '../contenders/bare-server.ts'
import { warrenName } from '../contenders/warren.ts'
import { type Contender, rowName, takeTurns, timed } from '../measure.ts'
import { medianOf, type Report } from '../report.ts'

const mebibytes = 1024
const bytes = mebibytes * 1024 * 1024
/** 70 % of the speed. */
const atMost = 1 / 0.7

export async function transfer(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const piece = new Uint8Array(64 * 1024 * 1024).map((_, index) => (index * 2654435761) >>> 13)
  const blob = new Blob(Array.from({ length: bytes / piece.length }, () => piece))
  const boxes: Sandbox[] = []
  let bare: BareServer | undefined
  try {
    const contenders: Contender[] = []
    for (const isolation of machine.isolations) {
      const warren = await machine.warren(isolation)
      const box = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      boxes.push(box)
      contenders.push(throughClient(warrenName(warren), box, blob))
    }
    bare = await startBareServer(bytes)
    contenders.push(throughFetch('bare, file', `${bare.url}/file`, blob))
    contenders.push(throughFetch('bare, memory', `${bare.url}/memory`, blob))
    const few = Math.max(3, Math.round(rounds / 3))
    const onRound = (done: number) => machine.say(`  round ${done} of ${few}`)
    const rows = await takeTurns(contenders, { rounds: few, pauseMs: 1000, signal: machine.signal, onRound })
    return { title: `Transfer of ${mebibytes} MiB`, rows, ...comparisons({ rows }) }
  } finally {
    await Promise.all(boxes.map((box) => box.kill()))
    await bare?.close()
  }
}

function comparisons(report: Pick<Report, 'rows'>): Pick<Report, 'targets'> {
  const targets = ['bare, file', 'bare, memory'].flatMap((bare) =>
    ['upload', 'download'].map((step) => ({
      promise: `container, time of ${step} against ${bare}`,
      value: medianOf(report, rowName('warren container', step)) / medianOf(report, rowName(bare, step)),
      atMost,
      unit: ' ×',
    })),
  )
  return { targets }
}

function throughClient(name: string, box: Sandbox, blob: Blob): Contender {
  return {
    name,
    async sample() {
      const [upload] = await timed(() => box.files.write('large', blob, { requestTimeoutMs: 0 }))
      const [download, received] = await timed(async () =>
        drain(await box.files.read('large', { format: 'stream', requestTimeoutMs: 0 })),
      )
      await box.files.remove('large')
      return complete(received, { upload, download })
    },
  }
}

function throughFetch(name: string, url: string, blob: Blob): Contender {
  return {
    name,
    async sample() {
      const [upload] = await timed(async () => (await fetch(url, { method: 'POST', body: blob })).text())
      const [download, received] = await timed(async () => drain((await fetch(url)).body!))
      return complete(received, { upload, download })
    },
  }
}

function complete(received: number, steps: Record<string, number>): Record<string, number> {
  if (received !== bytes) throw new Error(`${received} bytes came back`)
  return steps
}

async function drain(stream: ReadableStream<Uint8Array>): Promise<number> {
  let received = 0
  for await (const chunk of stream) received += chunk.length
  return received
}
