/** Links for uploads: each is valid for one team and hash, and for half an hour. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { AppError } from '../../../lib/app-error.ts'

const linkGoodForMs = 30 * 60_000

export type UploadTarget = { teamID: string; hash: string }

/** Returns the path with its query. In a cluster it names the node whose disk the files are for. */
export function uploadLink(
  { teamID, hash }: UploadTarget,
  secret: string,
  now: number,
  nodeID: string | undefined,
): string {
  const expires = String(now + linkGoodForMs)
  const signature = sign({ teamID, hash }, expires, secret)
  const node = nodeID === undefined ? '' : `&node=${nodeID}`
  return `/build-files/${teamID}/${hash}?expires=${expires}&signature=${signature}${node}`
}

export function checkUploadLink(
  target: UploadTarget,
  { expires, signature }: { expires: string; signature: string },
  secret: string,
  now: number,
): void {
  const [given, wanted] = [Buffer.from(signature), Buffer.from(sign(target, expires, secret))]
  const isSigned = given.length === wanted.length && timingSafeEqual(given, wanted)
  if (isSigned && Number(expires) >= now) return
  throw new AppError('permission_denied', 'This link is not valid or has expired; ask for another one')
}

function sign({ teamID, hash }: UploadTarget, expires: string, secret: string): string {
  return createHmac('sha256', secret).update(`${teamID}/${hash}/${expires}`).digest('base64url')
}
