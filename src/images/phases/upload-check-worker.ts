/**
 * A worker thread that checks all uploads of this Warren. It limits the pace at which the uploads of each
 * team, and of all teams together, are unpacked: a zip bomb takes a share of one core, and no time of the
 * thread that answers requests.
 */
import { open } from 'node:fs/promises'
import { parentPort } from 'node:worker_threads'
import { isAppError } from '../../lib/app-error.ts'
import { delay } from '../../lib/clock.ts'
import { hearMessages } from '../../lib/ending-worker.ts'
import { Pace } from '../../lib/pace.ts'
import { UploadCheck } from './upload-check.ts'
import type { FromChecker, ToChecker } from './upload-protocol.ts'

const mebibyte = 2 ** 20
const teamPace = { bytesPerSecond: 64 * mebibyte, burstBytes: 256 * mebibyte }
const paceOfAll = new Pace({ bytesPerSecond: 192 * mebibyte, burstBytes: 512 * mebibyte })
/** Lives as long as this thread: a team does not get a new burst with each upload. */
const paceOfTeam = new Map<string, Pace>()
const readAtOnce = 64 * 1024

type Upload = { size: number; isEnded: boolean; isClosed: boolean; check: UploadCheck; wake: () => void }
const uploads = new Map<number, Upload>()

const send = (message: FromChecker): void => parentPort!.postMessage(message)

hearMessages((message: ToChecker) => {
  if (message.type === 'open') void follow(message)
  const upload = uploads.get(message.id)
  if (!upload) return
  if (message.type === 'grown') upload.size = message.size
  else if (message.type === 'end') upload.isEnded = true
  else if (message.type === 'close') close(upload)
  upload.wake()
})

function close(upload: Upload): void {
  upload.isClosed = true
  upload.check.close()
}

/** Checks the available part of the file, until the file is complete. */
async function follow({ id, teamID, path, bounds }: ToChecker & { type: 'open' }): Promise<void> {
  const pace = paceOfTeam.get(teamID) ?? new Pace(teamPace)
  paceOfTeam.set(teamID, pace)
  const check = new UploadCheck(bounds, async (bytes) => {
    const waitMs = Math.max(pace.spend(bytes), paceOfAll.spend(bytes))
    if (waitMs > 0) await delay(waitMs)
  })
  const upload: Upload = { size: 0, isEnded: false, isClosed: false, check, wake: () => {} }
  uploads.set(id, upload)
  try {
    for await (const chunk of bytesOf(upload, path)) await check.add(chunk)
    await check.finish()
    send({ type: 'done', id })
  } catch (error) {
    const { code, message } = isAppError(error) ? error : failed
    if (!upload.isClosed) send({ type: 'failed', id, code, message })
  } finally {
    close(upload)
    uploads.delete(id)
  }
}

const failed = { code: 'internal', message: 'Checking the files of a COPY failed. Try again.' } as const

async function* bytesOf(upload: Upload, path: string): AsyncGenerator<Buffer> {
  const file = await open(path)
  try {
    let at = 0
    while (!upload.isClosed) {
      if (at < upload.size) {
        // A new buffer each time, because the check may hold several.
        const bytes = Buffer.allocUnsafe(Math.min(readAtOnce, upload.size - at))
        const { bytesRead } = await file.read(bytes, 0, bytes.length, at)
        if (bytesRead === 0) throw new Error('the file is shorter than reported')
        at += bytesRead
        yield bytes.subarray(0, bytesRead)
      } else if (upload.isEnded) return
      else
        await new Promise<void>((resolve) => {
          upload.wake = resolve
        })
    }
  } finally {
    await file.close()
  }
}
